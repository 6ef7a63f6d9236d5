"""Norms in scale-shift form: x a + (bias - mean(x) a) with a = gain / s.

Kernels and folded norms are written so. The term x a alone is not a norm; it becomes one when
mean(x) a is subtracted.
"""

from __future__ import annotations

from dataclasses import replace

from normdiag.graph import Node
from normdiag.structure.algebraic_forms import (
    DetectedNorm,
    Form,
    MeanForm,
    NormForm,
    PowerForm,
    ScaleShiftTerm,
)

Operand = tuple[Node, Form | None]


def match_mean_term(mean: MeanForm, s: PowerForm, gain: Node | None) -> Form | None:
    """Match mean(x) a."""
    fits = mean.source is s.source and mean.axes == s.axes and not mean.is_squared
    if not fits or mean.scale != 1.0 or s.exponent != -0.5 or not s.is_centred:
        return None
    return ScaleShiftTerm(_build_pending_norm(s), "mean", gain)


def combine_terms(node: Node, left: Operand, right: Operand, sign: float) -> Form | None:
    """Match bias - mean(x) a, x a - mean(x) a or x a + (bias - mean(x) a)."""
    (a, first), (_, second) = left, right
    if isinstance(second, ScaleShiftTerm) and second.term == "mean" and sign < 0:
        if isinstance(first, ScaleShiftTerm):
            return _complete_norm(node, first, second)
        is_bias = not a.is_data and a.is_floating
        return replace(second, term="shift", bias=a) if is_bias else None
    if isinstance(first, ScaleShiftTerm) and isinstance(second, ScaleShiftTerm) and sign > 0:
        value, shift = (first, second) if first.term == "value" else (second, first)
        return _complete_norm(node, value, shift) if shift.term == "shift" else None
    return None


def _complete_norm(node: Node, value: ScaleShiftTerm, other: ScaleShiftTerm) -> Form | None:
    norm = value.norm
    same = (
        value.term == "value"
        and value.gain is other.gain
        and norm.source is other.norm.source
        and (norm.axes, norm.eps, norm.variance_scale)
        == (other.norm.axes, other.norm.eps, other.norm.variance_scale)
    )
    if not same or norm.factor != 1.0:
        return None
    norm.gains = [] if value.gain is None else [value.gain]
    norm.biases = [] if other.bias is None else [other.bias]
    norm.output = node
    return NormForm(norm)


def _build_pending_norm(s: PowerForm) -> DetectedNorm:
    return DetectedNorm(
        node=s.source,
        source=s.source,
        kind="layernorm",
        axes=s.axes,
        count=s.count,
        is_centred=True,
        eps=s.eps,
        eps_place=s.eps_place,
        eps_dtype=s.eps_dtype,
        variance_scale=s.scale,
    )
