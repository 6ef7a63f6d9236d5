"""DyT: gain * tanh(a x) + bias with a learned scalar a, in place of a norm (Zhu et al. 2025).

Unlike a norm it is elementwise and has no scale invariance.
"""

from __future__ import annotations

from math import prod

from normdiag.graph import Node
from normdiag.structure.algebraic_forms import DetectedNorm, Form, NormForm, TanhForm, uncast_value
from normdiag.structure.aten_operations import skip_views


def match_scaled_tanh(node: Node) -> Form | None:
    """Match tanh(a x) with a learned scalar a."""
    product = uncast_value(node.parents[0])
    if product.op not in ("mul", "multiply") or len(product.parents) != 2:
        return None
    for x, scalar in (product.parents, product.parents[::-1]):
        if x.is_data and prod(scalar.shape) == 1 and _is_learned(scalar):
            return TanhForm(uncast_value(x), scalar)
    return None


def _is_learned(value: Node) -> bool:
    """Whether `value` is a parameter, or made of one and of constants, such as 1 + a."""
    if value.is_data:
        return False
    return skip_views(value).op == "parameter" or any(map(_is_learned, value.parents))


def match_dyt_gain(node: Node, form: TanhForm, gain: Node) -> Form | None:
    """Match the product of tanh(a x) and a gain per feature."""
    if not gain.shape or prod(gain.shape) != gain.shape[-1]:
        return None
    return NormForm(
        DetectedNorm(
            node=node,
            source=form.source,
            kind="dyt",
            axes=(-1,),
            count=node.shape[-1],
            is_centred=False,
            eps=None,
            eps_place="inside",
            variance_scale=1.0,
            frame=node.frame,
            gains=[gain],
            output=node,
            alpha=form.alpha,
        )
    )
