"""Tokens that are cut off joined ones again: which of the operands they come from.

They were joined by a concatenation, or some of a value's tokens were overwritten in place.
"""

from __future__ import annotations

from collections.abc import Sequence

from normdiag.graph import Node
from normdiag.structure.aten_operations import part_axis


def find_joined_operand(node: Node) -> Node | None:
    """The operand of a concatenation that holds all of what `node` cuts off it.

    Of a value of which another part was overwritten, it is the value before.

    None where `node` is no part of a concatenation along the same axis, where the part reaches
    into two operands, or where its borders are no numbers.
    """
    axis = part_axis(node)
    if axis is None:
        return None
    source = node.parents[0]
    bounds = _read_bounds(node, source.shape[axis])
    if bounds is None:
        return None
    if source.op == "write":
        return _find_unwritten_value(source, axis, bounds)
    if source.op != "cat" or _concatenated_axis(source) != axis:
        return None
    operands: Sequence[Node] = source.args[0]
    start = 0
    for operand in operands:
        if len(operand.shape) < len(source.shape):
            continue  # an empty list of numbers may be joined to anything
        end = start + operand.shape[axis]
        if start <= bounds[0] < bounds[1] <= end:
            return operand
        start = end
    return None


def _find_unwritten_value(value: Node, axis: int, bounds: tuple[int, int]) -> Node:
    """The earliest value that holds the part: what was overwritten since lies beside it."""
    while value.op == "write":
        before, written = value.parents
        at = _overwritten_bounds(before, written, axis)
        if at is None or (at[0] < bounds[1] and bounds[0] < at[1]):
            break
        value = before
    return value


def _overwritten_bounds(before: Node, written: Node, axis: int) -> tuple[int, int] | None:
    target = written.args[0] if written.args else None
    if not isinstance(target, Node) or part_axis(target) != axis or target.parents[0] is not before:
        return None
    return _read_bounds(target, before.shape[axis])


def _concatenated_axis(node: Node) -> int:
    axis = int(node.args[1] if len(node.args) > 1 else node.kwargs.get("dim", 0))
    return axis if axis < 0 else axis - len(node.shape)


def _read_bounds(node: Node, size: int) -> tuple[int, int] | None:
    """The first position of a slice and the one behind its last."""
    place = node.args[2] if len(node.args) > 2 else None
    if node.op == "select":
        return (place % size, place % size + 1) if isinstance(place, int) else None
    end = node.args[3] if len(node.args) > 3 else None
    if node.op != "slice" or not all(b is None or isinstance(b, int) for b in (place, end)):
        return None
    first, last, _ = slice(place, end).indices(size)
    return first, last
