"""The division that makes a norm: x, or x less its mean, by the root of its own mean square."""

from __future__ import annotations

from dataclasses import replace

from normdiag.graph import Node
from normdiag.structure.affine import name_by_length, unweighted
from normdiag.structure.forms import (
    Form,
    Half,
    Linear,
    Normal,
    NormFound,
    Power,
    Weighted,
    linear,
    unscaled,
)


def divided_by(
    node: Node, value: Node, s: Power, gain: Node | None, *, inverted: bool
) -> Form | None:
    """`value` divided by s (times its inverse), with the gain that s or `value` brings."""
    if s.exponent != (-0.5 if inverted else 0.5):
        return None
    forms: list[tuple[Linear | Power | None, Node | None]] = [(linear(value), gain)]
    if isinstance(value.form, Weighted) and gain is None:
        forms.insert(0, unweighted(value.form))
    for x, own in forms:
        norm = _normalised(node, x, s) if isinstance(x, Linear) else None
        if norm is None:
            continue
        if norm.is_centred and not (isinstance(x, Linear) and x.is_centred):
            return Half(norm, "value", own)
        norm.gains = [] if own is None else [own]
        return Normal(norm)
    return None


def _normalised(node: Node, x: Linear, s: Power) -> NormFound | None:
    if x.is_centred and not s.is_centred:
        return None
    if s.source is not x.source:
        original, times = unscaled(x.source)
        if s.source is not original:
            return None
        x = replace(x, source=original, scale=x.scale * times)
    norm = NormFound(
        node=node,
        source=x.source,
        kind="layernorm" if s.is_centred else "rmsnorm",
        axes=s.axes,
        count=s.count,
        is_centred=s.is_centred,
        eps=s.eps,
        eps_place=s.eps_place,
        variance_scale=s.scale,
        factor=x.scale,
        frame=node.frame,
        output=node,
        mean=x.mean or s.mean,
    )
    name_by_length(norm)
    return norm
