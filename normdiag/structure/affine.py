"""The gain and the bias of a norm: what its normalised value is multiplied by and added to."""

from __future__ import annotations

from normdiag.graph import Node
from normdiag.structure.forms import Form, Normal, NormFound, form_of
from normdiag.structure.operations import CASTS, VIEWS


def same_call(node: Node, norm: NormFound) -> bool:
    return node.frame is norm.node.frame


def with_gain(node: Node, norm: NormFound, gain: Node | float) -> Form | None:
    if norm.output is None or not follows(node, norm) or norm.biases:
        return None
    has_vector = any(isinstance(g, Node) for g in norm.gains)
    if isinstance(gain, Node) and (has_vector or norm.fused or not same_call(node, norm)):
        return None
    if norm.fused:
        return None
    norm.gains.append(gain)
    norm.output = node
    return Normal(norm)


def with_bias(node: Node, norm: NormFound, bias: Node) -> Form | None:
    if norm.fused or norm.biases or not follows(node, norm):
        return None
    norm.biases.append(bias)
    norm.output = node
    return Normal(norm)


def follows(node: Node, norm: NormFound) -> bool:
    """Whether `node` continues the norm from its present output (and not from an earlier part)."""
    for parent in node.parents:
        at = parent
        while at is not norm.output and (at.op in CASTS or at.op in VIEWS) and at.parents:
            at = at.parents[0]
        if at is norm.output:
            return True
    return False


def multiplied_and_added(node: Node) -> Form | None:
    """addcmul(bias, normalised, gain)."""
    bias, a, b = node.args[:3]
    for form, gain in ((form_of(a), b), (form_of(b), a)):
        learned = all(isinstance(p, Node) and not p.is_data for p in (gain, bias))
        if isinstance(form, Normal) and learned:
            with_gain(node, form.norm, gain)
            return with_bias(node, form.norm, bias)
    return None
