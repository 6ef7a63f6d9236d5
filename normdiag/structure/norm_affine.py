"""Gain and bias of a norm: the factor and the offset of its normalised value."""

from __future__ import annotations

from math import isclose

from normdiag.graph import Node
from normdiag.structure.algebraic_forms import (
    DetectedNorm,
    Form,
    GainedForm,
    LinearForm,
    NormForm,
    PowerForm,
    TanhForm,
    linear_form,
    operand_form,
    scalar_value,
)
from normdiag.structure.aten_operations import CASTS, VIEWS
from normdiag.structure.dynamic_tanh import match_dyt_gain


def is_same_call(node: Node, norm: DetectedNorm) -> bool:
    """Whether `node` runs in the module call that computes the norm."""
    return node.frame is norm.node.frame


def attach_gain(node: Node, norm: DetectedNorm, gain: Node | float) -> Form | None:
    """Extend the norm by a multiplication with `gain`; None where that is not part of it."""
    if (
        norm.output is None
        or not continues_norm(node, norm)
        or norm.biases
        or not _allows_affine(norm)
    ):
        return None
    has_vector = any(isinstance(g, Node) for g in norm.gains)
    if isinstance(gain, Node) and (has_vector or not is_same_call(node, norm)):
        return None
    if norm.is_fused and isinstance(gain, float):
        return None
    norm.output = node
    if isinstance(gain, float) and not norm.gains and _is_root_of_count(gain, norm):
        norm.factor = gain
        classify_by_length(norm)
    else:
        norm.gains.append(gain)
    return NormForm(norm)


def _allows_affine(norm: DetectedNorm) -> bool:
    """Whether later operations may add a gain or bias; batch and group norms hold theirs inside."""
    return norm.kind not in ("batchnorm", "groupnorm")


def _is_root_of_count(gain: float, norm: DetectedNorm) -> bool:
    return norm.kind == "l2norm" and norm.factor == 1.0 and isclose(gain**2, norm.count)


def classify_by_length(norm: DetectedNorm) -> None:
    """Tell an RMSNorm from an L2 norm by the length of the normalised vector.

    f x / sqrt(c m2 + eps) equals x / sqrt(m2 + eps / f^2) where c = f^2. That is an RMSNorm, also
    where it is written as a unit vector times sqrt(H). An L2 norm gives length 1.
    """
    if norm.is_centred:
        return
    if isinstance(norm.eps, float) and isclose(norm.variance_scale, norm.factor**2, rel_tol=1e-6):
        norm.eps /= norm.factor**2 if norm.is_eps_inside else norm.factor
        norm.variance_scale = norm.factor = 1.0
    length = norm.factor**2 * norm.count / norm.variance_scale
    norm.kind = "l2norm" if isclose(length, 1.0, rel_tol=1e-6) else "rmsnorm"


def gained_form(value: Node, gain: Node) -> Form | None:
    """A value, or its inverse deviation, times a gain, before the two are multiplied."""
    form: Form | None = value.form if isinstance(value.form, PowerForm) else linear_form(value)
    return GainedForm(form, gain) if isinstance(form, (LinearForm, PowerForm)) else None


def split_gain(form: Form | None) -> tuple[LinearForm | PowerForm | None, Node | None]:
    """Split a form into the form without gain and the gain."""
    if isinstance(form, GainedForm):
        return form.form, form.gain
    return (form, None) if isinstance(form, (LinearForm, PowerForm)) else (None, None)


def gain_offset(gain: Node) -> float:
    """The constant that is added to the stored parameter: 1 for a gain of `1 + w`, else 0."""
    offset, at = 0.0, gain
    while at.parents:
        if at.op in ("add", "sub") and len(at.parents) == 1:
            constants = [n for n in map(scalar_value, at.args[:2]) if n is not None]
            times = scalar_value(at.kwargs.get("alpha", 1))
            if len(constants) != 1 or times != 1.0:
                return 0.0
            offset += constants[0] if at.op == "add" else -constants[0]
        elif at.op not in CASTS and at.op not in VIEWS:
            return 0.0
        at = at.parents[0]
    return offset


def attach_bias(node: Node, norm: DetectedNorm, bias: Node) -> Form | None:
    """Extend the norm by an addition of `bias`; None where that is not part of it."""
    if norm.biases or not continues_norm(node, norm) or not _allows_affine(norm):
        return None
    norm.biases.append(bias)
    norm.output = node
    return NormForm(norm)


def continues_norm(node: Node, norm: DetectedNorm) -> bool:
    """Whether `node` uses the current output of the norm, not an earlier intermediate value."""
    for parent in node.parents:
        at = parent
        while at is not norm.output and (at.op in CASTS or at.op in VIEWS) and at.parents:
            at = at.parents[0]
        if at is norm.output:
            return True
    return False


def match_addcmul(node: Node) -> Form | None:
    """Match addcmul(bias, normalised, gain)."""
    bias, a, b = node.args[:3]
    for form, gain in ((operand_form(a), b), (operand_form(b), a)):
        learned = all(isinstance(p, Node) and not p.is_data for p in (gain, bias))
        if not learned or node.kwargs.get("value", 1) != 1:
            continue
        product: Form | None = None
        if isinstance(form, NormForm):
            product = attach_gain(node, form.norm, gain)
        elif isinstance(form, TanhForm):
            product = match_dyt_gain(node, form, gain)
        if isinstance(product, NormForm):
            product.norm.biases.append(bias)
            return product
    return None
