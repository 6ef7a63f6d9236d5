"""The division of a norm: x, or x - mean(x), by the root of its mean square."""

from __future__ import annotations

from dataclasses import replace

from normdiag.graph import Node
from normdiag.structure.algebraic_forms import (
    DetectedNorm,
    Form,
    GainedForm,
    LinearForm,
    NormForm,
    PowerForm,
    ScaleShiftTerm,
    linear_form,
    split_scale,
)
from normdiag.structure.norm_affine import classify_by_length, split_gain


def match_norm_division(
    node: Node, value: Node, s: PowerForm, gain: Node | None, *, inverted: bool
) -> Form | None:
    """Match `value` / s, or `value` times 1 / s, with the gain that s or `value` carries."""
    if s.exponent != (-0.5 if inverted else 0.5):
        return None
    forms: list[tuple[LinearForm | PowerForm | None, Node | None]] = [(linear_form(value), gain)]
    if isinstance(value.form, GainedForm) and gain is None:
        forms.insert(0, split_gain(value.form))
    for x, own_gain in forms:
        norm = _build_norm(node, x, s) if isinstance(x, LinearForm) else None
        if norm is None:
            continue
        if norm.is_centred and not (isinstance(x, LinearForm) and x.is_centred):
            return ScaleShiftTerm(norm, "value", own_gain)
        norm.gains = [] if own_gain is None else [own_gain]
        return NormForm(norm)
    return None


def _build_norm(node: Node, x: LinearForm, s: PowerForm) -> DetectedNorm | None:
    if x.is_centred and not s.is_centred:
        return None
    if s.source is not x.source:
        original, times = split_scale(x.source)
        if s.source is not original:
            return None
        x = replace(x, source=original, scale=x.scale * times)
    norm = DetectedNorm(
        node=node,
        source=x.source,
        kind="layernorm" if s.is_centred else "rmsnorm",
        axes=s.axes,
        count=s.count,
        is_centred=s.is_centred,
        eps=s.eps,
        eps_place=s.eps_place,
        eps_dtype=s.eps_dtype,
        variance_scale=s.scale,
        factor=x.scale,
        frame=node.frame,
        output=node,
        mean=x.mean or s.mean,
    )
    classify_by_length(norm)
    return norm
