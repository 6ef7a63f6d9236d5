"""Where a token lies after the views between two adds: windows and grids put rows in another order.

The views of the skip path are run again on the numbers of the rows.
"""

from __future__ import annotations

from math import prod

import torch
from torch import Tensor

from normdiag.graph import Node
from normdiag.structure.algebraic_forms import NormForm
from normdiag.structure.aten_operations import RESHAPES, VIEWS
from normdiag.structure.dataflow import step_back
from normdiag.structure.gates import step_past_gate
from normdiag.structure.joined_parts import find_joined_operand
from normdiag.structure.residual_adds import DetectedAdd, step_past_bias

_NO_ROW = -1
_OF_STORAGE = frozenset({"as_strided", "im2col", "col2im", "unfold"})
"""Views that depend on how memory is laid out, or that repeat elements."""


def find_row_path(end: Node, start: Node, add: DetectedAdd) -> list[Node] | None:
    """The values between `start` and `end`, in order, along the skip of `add`; None if unknown."""
    path: list[Node] = []
    node = end
    while node is not start:
        path.append(node)
        if node is add.node:
            node = add.skip
        elif isinstance(node.form, NormForm) and node.op not in VIEWS:
            node = node.form.norm.source
        elif (step := step_back(node) or step_past_gate(node)) is not None:
            node = step[0]
        elif (before := step_past_bias(node)) is not None:
            node = before
        else:
            return None
    return path[::-1]


def follow_rows(path: list[Node], start: Node, axis: int) -> Tensor | None:
    """The row of `start` that each element of the last value of `path` is of, -1 for no row.

    Args:
        path: values that follow from `start`, each from the one before.
        axis: the axis of the features of `start`, counted from the end.

    Returns:
        A tensor of the last value's shape, or None where a view cannot be run again: its operands
        are data, or it depends on how memory is laid out.
    """
    lead = list(start.shape)
    lead[axis] = 1
    rows = torch.arange(prod(lead)).reshape(lead).expand(start.shape)
    before = start
    for node in path:
        moved = _move_rows(node, before, rows)
        if moved is None or moved.shape != node.shape:
            return None
        rows, before = moved, node
    return rows


def keep_rows(path: list[Node], start: Node) -> bool:
    """Whether no value on the path can hold its rows in another order than `start`."""
    return all(node.shape == start.shape and node.op not in VIEWS for node in path)


def _move_rows(node: Node, before: Node, rows: Tensor) -> Tensor | None:
    if node.op == "cat":
        return _join_rows(node, before, rows)
    if node.op not in VIEWS:
        return rows  # elementwise
    if node.shape == before.shape and find_joined_operand(node) is before:
        return rows  # all of what was joined to other tokens is cut off again
    if node.op in _OF_STORAGE or node.parents != (before,):
        return None
    if node.op in RESHAPES and prod(node.shape) == rows.numel():
        return rows.reshape(node.shape)
    marked = rows + 1  # padding is zero
    moved = getattr(torch.ops.aten, node.op)(marked, *node.args[1:], **node.kwargs)
    part: Tensor = moved if isinstance(moved, Tensor) else moved[node.output]
    return part - 1


def _join_rows(node: Node, before: Node, rows: Tensor) -> Tensor | None:
    """Tokens joined to those that are followed are none of them."""
    parts = [rows if part is before else torch.full(part.shape, _NO_ROW) for part in node.args[0]]
    axis = node.args[1] if len(node.args) > 1 else node.kwargs.get("dim", 0)
    return torch.cat(parts, axis)
