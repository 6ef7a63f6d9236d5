"""Forms of reductions: means, sums, variances, vector norms, self inner products."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from normdiag.graph import Node
from normdiag.structure.forms import (
    Form,
    Linear,
    Moment,
    Power,
    Square,
    axes_of,
    count_of,
    linear,
)
from normdiag.structure.self_products import dot_with_itself, row_times_itself


def _argument(node: Node, position: int, name: str, default: Any = None) -> Any:
    if len(node.args) > position:
        return node.args[position]
    return node.kwargs.get(name, default)


def _mean(node: Node) -> Form | None:
    return _reduced(node, is_sum=False)


def _sum(node: Node) -> Form | None:
    return _reduced(node, is_sum=True)


def _reduced(node: Node, is_sum: bool) -> Form | None:
    operand = node.args[0]
    axes = axes_of(operand, _argument(node, 1, "dim"))
    count = count_of(operand, axes)
    times = float(count) if is_sum else 1.0
    form: Form | None = linear(operand) or operand.form
    if isinstance(form, Linear) and not form.is_centred:
        return Moment(form.source, axes, form.scale * times)
    if isinstance(form, Square) and form.axes in ((), axes):
        return Power(form.source, axes, form.is_centred, form.scale * times, count, mean=form.mean)
    return None


def _variance(node: Node, exponent: float) -> Form | None:
    operand = node.args[0]
    form = linear(operand)
    if form is None:
        return None
    overloaded_bool = isinstance(_argument(node, 1, "dim"), bool)
    dims = None if overloaded_bool else _argument(node, 1, "dim")
    axes = axes_of(operand, dims)
    count = count_of(operand, axes)
    if node.output == 1:
        return Moment(form.source, axes, form.scale)
    correction = _correction(node)
    if count <= correction:
        return None
    scale = form.scale**2 * count / (count - correction)
    return Power(form.source, axes, True, scale, count, exponent=exponent)


def _correction(node: Node) -> float:
    for value in (*node.args[1:], *node.kwargs.values()):
        if isinstance(value, bool):
            if node.kwargs.get("keepdim") is value:
                continue
            return 1.0 if value else 0.0
    correction = node.kwargs.get("correction")
    return 1.0 if correction is None else float(correction)


def _var(node: Node) -> Form | None:
    return _variance(node, 1.0)


def _std(node: Node) -> Form | None:
    return _variance(node, 0.5)


def _vector_norm(node: Node) -> Form | None:
    operand = node.args[0]
    form = linear(operand)
    order = _argument(node, 1, "ord" if "linalg" in node.op else "p", 2)
    if form is None or order not in (2, 2.0, None):
        return None
    axes = axes_of(operand, _argument(node, 2, "dim"))
    if node.op == "linalg_norm" and order is not None and len(axes) > 1:
        return None  # a matrix's largest singular value
    count = count_of(operand, axes)
    return Power(
        form.source, axes, form.is_centred, form.scale**2 * count, count, 0.5, mean=form.mean
    )


REDUCTIONS: dict[str, Callable[[Node], Form | None]] = {
    "mean": _mean,
    "sum": _sum,
    "var": _var,
    "std": _std,
    "var_mean": _var,
    "std_mean": _std,
    "linalg_vector_norm": _vector_norm,
    "norm": _vector_norm,
    "linalg_norm": _vector_norm,
    "bmm": row_times_itself,
    "matmul": row_times_itself,
    "linalg_vecdot": dot_with_itself,
}
