"""Inner products of x with itself, written as a matrix product or as vecdot."""

from __future__ import annotations

from math import prod

from normdiag.graph import Node
from normdiag.structure.algebraic_forms import Form, LinearForm, PowerForm, linear_form
from normdiag.structure.aten_operations import CASTS, VIEWS


def match_row_product(node: Node) -> Form | None:
    """Match a (batched) matrix product of a row with itself."""
    if len(node.shape) < 2 or node.shape[-2:] != (1, 1) or len(node.parents) < 2:
        return None
    left, right = (_skip_plain_views(p) for p in node.parents[:2])
    count = node.parents[0].shape[-1]
    if left.shape[-1:] != (count,) or prod(left.shape) != prod(node.parents[0].shape):
        return None
    return _square_sum(linear_form(left), linear_form(right), (-1,), count)


def match_vecdot(node: Node) -> Form | None:
    """Match linalg.vecdot(x, x, dim)."""
    left, right = node.args[:2]
    dim = node.args[2] if len(node.args) > 2 else node.kwargs.get("dim", -1)
    axis = dim if dim < 0 else dim - len(left.shape)
    return _square_sum(linear_form(left), linear_form(right), (axis,), left.shape[axis])


def _square_sum(
    left: LinearForm | None, right: LinearForm | None, axes: tuple[int, ...], count: int
) -> Form | None:
    if left is None or left != right:
        return None
    scale = left.scale**2 * count
    return PowerForm(left.source, axes, left.is_centred, scale, count, mean=left.mean)


def _skip_plain_views(node: Node) -> Node:
    while node.parents and node.form is None and (node.op in VIEWS or node.op in CASTS):
        node = node.parents[0]
    return node
