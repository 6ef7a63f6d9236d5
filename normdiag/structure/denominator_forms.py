"""Squares, centring, roots and epsilon: from x to the denominator of a norm."""

from __future__ import annotations

from dataclasses import replace

from normdiag.graph import Node
from normdiag.structure.algebraic_forms import (
    EpsPlace,
    Form,
    LinearForm,
    MeanForm,
    PowerForm,
    SquareForm,
    linear_form,
    scalar_value,
)


def match_square(node: Node) -> Form | None:
    return square_form(node.args[0])


def square_form(operand: Node) -> Form | None:
    form: Form | None = linear_form(operand) or operand.form
    if isinstance(form, LinearForm):
        return SquareForm(form.source, form.axes, form.is_centred, form.scale**2, form.mean)
    if isinstance(form, MeanForm) and not form.is_squared:
        return MeanForm(form.source, form.axes, form.scale**2, is_squared=True)
    if isinstance(form, PowerForm) and form.exponent == 0.5 and form.eps == 0.0:
        return replace(form, exponent=1.0)
    return None


def match_pow(node: Node) -> Form | None:
    exponent = scalar_value(node.args[1]) if len(node.args) > 1 else None
    if exponent == 2.0:
        return match_square(node)
    if exponent in (0.5, -0.5, -1.0):
        return raise_to_exponent(node.args[0], exponent)
    return None


def raise_to_exponent(operand: Node, exponent: float) -> PowerForm | None:
    form = operand.form
    if not isinstance(form, PowerForm):
        return None
    if exponent != -1.0 and (form.exponent != 1.0 or form.eps_place == "outside"):
        return None
    return replace(form, exponent=form.exponent * exponent)


def scale_power(form: PowerForm, times: float) -> PowerForm | None:
    """Scale a power: k (c m2 + eps)^p = (c k^(1/p) m2 + eps k^(1/p))^p."""
    if times == 1.0:
        return form
    if times <= 0.0 or isinstance(form.eps, Node):
        return None
    stretch = times ** (1.0 / form.exponent)
    is_inside = form.eps_place in ("inside", "floor-inside")
    eps = form.eps * (stretch if is_inside else stretch**0.5)
    return replace(form, scale=form.scale * stretch, eps=eps)


def match_sqrt(node: Node) -> Form | None:
    return raise_to_exponent(node.args[0], 0.5)


def match_rsqrt(node: Node) -> Form | None:
    return raise_to_exponent(node.args[0], -0.5)


def match_reciprocal(node: Node) -> Form | None:
    return raise_to_exponent(node.args[0], -1.0)


def match_clamp(node: Node) -> Form | None:
    """Match max(s, eps), the floor of an L2 norm."""
    form = node.parents[0].form
    floor = node.args[1] if len(node.args) > 1 else node.kwargs.get("min")
    if not isinstance(form, PowerForm) or form.eps != 0.0:
        return None
    value: float | Node | None = scalar_value(floor)
    if value is None and isinstance(floor, Node) and not floor.is_data:
        value = floor
    if value is None or form.exponent not in (0.5, 1.0):
        return None
    if (
        isinstance(value, float) and value <= 0.0
    ):  # no floor: it keeps E[x^2] - E[x]^2 from rounding below zero
        return form
    place: EpsPlace = "floor-inside" if form.exponent == 1.0 else "floor"
    return replace(form, eps=value, eps_place=place, eps_dtype=node.dtype)


def match_relu(node: Node) -> Form | None:
    """Match relu(s), which does not change a non-negative s."""
    form = node.parents[0].form
    return form if isinstance(form, PowerForm) else None


def add_to_power(
    node: Node, form: PowerForm, other: Form | None, operand: object, sign: float
) -> Form | None:
    if isinstance(other, SquareForm) and isinstance(mean := other.source.form, MeanForm):
        other = MeanForm(mean.source, mean.axes, other.scale * mean.scale**2, is_squared=True)
    if isinstance(other, MeanForm) and other.is_squared and sign < 0:
        uncentred = form.exponent == 1.0 and not form.is_centred and form.eps == 0.0
        if uncentred and other.source is form.source:
            return replace(form, is_centred=True)  # E[x^2] - E[x]^2
        return None
    eps: float | Node | None = scalar_value(operand)
    if eps is None and isinstance(operand, Node) and not operand.is_data:
        eps = operand
    if eps is None or sign < 0 or form.eps != 0.0:
        return None
    if form.exponent == 1.0:
        return replace(form, eps=eps, eps_dtype=node.dtype)
    if form.exponent == 0.5:
        return replace(form, eps=eps, eps_place="outside", eps_dtype=node.dtype)
    return None


def subtract_mean(x: LinearForm, mean: MeanForm, node: Node, sign: float) -> Form | None:
    same = mean.source is x.source and not mean.is_squared and not x.is_centred
    if not same or abs(mean.scale * sign + x.scale) > 1e-9 * abs(x.scale):
        return None
    return replace(x, axes=mean.axes, is_centred=True, mean=node)
