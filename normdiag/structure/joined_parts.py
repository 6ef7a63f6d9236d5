"""Tokens that are cut off a concatenation again: which of its operands they come from."""

from __future__ import annotations

from collections.abc import Sequence

from normdiag.graph import Node
from normdiag.structure.aten_operations import part_axis


def find_joined_operand(node: Node) -> Node | None:
    """The operand of a concatenation that holds all of what `node` cuts off it.

    None where `node` is no part of a concatenation along the same axis, where the part reaches
    into two operands, or where its borders are no numbers.
    """
    axis = part_axis(node)
    if axis is None:
        return None
    source = node.parents[0]
    bounds = _read_bounds(node, source.shape[axis])
    if source.op != "cat" or bounds is None or _concatenated_axis(source) != axis:
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
