"""Forms of reductions: means, sums, variances, vector norms, inner products."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from normdiag.graph import Node
from normdiag.structure.algebraic_forms import (
    Form,
    LinearForm,
    MeanForm,
    PowerForm,
    SquareForm,
    linear_form,
    reduced_axes,
    reduced_count,
)
from normdiag.structure.inner_products import match_row_product, match_vecdot


def _find_argument(node: Node, position: int, name: str, default: Any = None) -> Any:
    if len(node.args) > position:
        return node.args[position]
    return node.kwargs.get(name, default)


def _match_mean(node: Node) -> Form | None:
    return _match_reduction(node, is_sum=False)


def _match_sum(node: Node) -> Form | None:
    return _match_reduction(node, is_sum=True)


def _match_reduction(node: Node, is_sum: bool) -> Form | None:
    operand = node.args[0]
    axes = reduced_axes(operand, _find_argument(node, 1, "dim"))
    count = reduced_count(operand, axes)
    times = float(count) if is_sum else 1.0
    form: Form | None = linear_form(operand) or operand.form
    if isinstance(form, LinearForm) and not form.is_centred:
        return MeanForm(form.source, axes, form.scale * times)
    if isinstance(form, SquareForm) and form.axes in ((), axes):
        return PowerForm(
            form.source, axes, form.is_centred, form.scale * times, count, mean=form.mean
        )
    return None


def _match_variance(node: Node, exponent: float) -> Form | None:
    operand = node.args[0]
    form = linear_form(operand)
    if form is None:
        return None
    overloaded_bool = isinstance(_find_argument(node, 1, "dim"), bool)
    dims = None if overloaded_bool else _find_argument(node, 1, "dim")
    axes = reduced_axes(operand, dims)
    count = reduced_count(operand, axes)
    if node.output == 1:
        return MeanForm(form.source, axes, form.scale)
    correction = _bessel_correction(node)
    if count <= correction:
        return None
    scale = form.scale**2 * count / (count - correction)
    return PowerForm(form.source, axes, True, scale, count, exponent=exponent)


def _bessel_correction(node: Node) -> float:
    for value in (*node.args[1:], *node.kwargs.values()):
        if isinstance(value, bool):
            if node.kwargs.get("keepdim") is value:
                continue
            return 1.0 if value else 0.0
    correction = node.kwargs.get("correction")
    return 1.0 if correction is None else float(correction)


def _match_var(node: Node) -> Form | None:
    return _match_variance(node, 1.0)


def _match_std(node: Node) -> Form | None:
    return _match_variance(node, 0.5)


def _match_vector_norm(node: Node) -> Form | None:
    operand = node.args[0]
    form = linear_form(operand)
    order = _find_argument(node, 1, "ord" if "linalg" in node.op else "p", 2)
    if form is None or order not in (2, 2.0, None):
        return None
    axes = reduced_axes(operand, _find_argument(node, 2, "dim"))
    if node.op == "linalg_norm" and order is not None and len(axes) > 1:
        return None  # the largest singular value of a matrix
    count = reduced_count(operand, axes)
    return PowerForm(
        form.source, axes, form.is_centred, form.scale**2 * count, count, 0.5, mean=form.mean
    )


REDUCTION_MATCHERS: dict[str, Callable[[Node], Form | None]] = {
    "mean": _match_mean,
    "sum": _match_sum,
    "var": _match_var,
    "std": _match_std,
    "var_mean": _match_var,
    "std_mean": _match_std,
    "linalg_vector_norm": _match_vector_norm,
    "norm": _match_vector_norm,
    "linalg_norm": _match_vector_norm,
    "bmm": match_row_product,
    "matmul": match_row_product,
    "linalg_vecdot": match_vecdot,
}
