"""The scores behind a softmax, and the constant that scales them, read from the data flow."""

from __future__ import annotations

from dataclasses import dataclass

from normdiag.graph import Node
from normdiag.structure.algebraic_forms import scalar_value
from normdiag.structure.aten_operations import ATTENTION, SOFTMAX, is_score_product
from normdiag.structure.dataflow import ScaleFactor, step_back
from normdiag.structure.qk_normed_logits import match_rotary_embedding


@dataclass(frozen=True, slots=True)
class AttentionScore:
    """q . k and what multiplies it up to the softmax."""

    product: Node
    head_width: int
    scale: float | None
    """Null where a factor is learned."""


def find_attention_score(softmax: Node) -> AttentionScore | None:
    """Find the product of q and k whose scaled and masked values `softmax` receives.

    Between them lie scales, masks, biases and a soft cap; None where there is no such product, or
    the softmax is not over keys.
    """
    axis = softmax.args[1] if len(softmax.args) > 1 else None
    if softmax.op not in SOFTMAX or axis not in (-1, len(softmax.shape) - 1):
        return None
    found = _trace_to_product(softmax.parents[0], ())
    if found is None:
        return None
    product, factors = found
    sides = [n for n in product.args if isinstance(n, Node) and n.is_data]
    q, k = sides[-2:]
    factors = (*factors, *_scales_before_product(q), *_scales_before_product(k))
    return AttentionScore(product, q.shape[-1], _multiply_constants(factors))


def find_fused_score(attention: Node) -> AttentionScore | None:
    """The score of a fused attention; None for other operations."""
    if attention.op not in ATTENTION or attention.output != 0 or len(attention.parents) < 3:
        return None
    q, k = attention.parents[:2]
    scale = scalar_value(attention.kwargs.get("scale"))
    own = q.shape[-1] ** -0.5 if scale is None else scale
    factors = (ScaleFactor(own), *_scales_before_product(q), *_scales_before_product(k))
    return AttentionScore(attention, q.shape[-1], _multiply_constants(factors))


def _trace_to_product(
    node: Node, factors: tuple[ScaleFactor, ...]
) -> tuple[Node, tuple[ScaleFactor, ...]] | None:
    while not is_score_product(node):
        step = step_back(node)
        if step is not None:
            node, factor = step
            factors = factors if factor is None else (*factors, factor)
        elif node.op in ("add", "sub"):
            sides = (p for p in node.parents if p.is_data and p.shape == node.shape)
            traced = (_trace_to_product(side, factors) for side in sides)
            return next((each for each in traced if each is not None), None)
        elif node.op == "tanh":  # a soft cap c tanh(x / c): its two constants cancel
            node = node.parents[0]
        else:
            return None
    if node.op == "baddbmm":
        factors = (*factors, ScaleFactor(float(node.kwargs.get("alpha", 1.0))))
    return (node, factors) if node.op not in ATTENTION else None


def _scales_before_product(node: Node) -> list[ScaleFactor]:
    """Scales of q or k, up to what computes it."""
    factors: list[ScaleFactor] = []
    while True:
        unrotated = match_rotary_embedding(node)
        step = step_back(node) if unrotated is None else None
        if unrotated is not None:
            node = unrotated[0]
            factors += unrotated[1]
        elif step is not None:
            node = step[0]
            factors += [] if step[1] is None else [step[1]]
        else:
            return factors


def _multiply_constants(factors: tuple[ScaleFactor, ...]) -> float | None:
    scale = 1.0
    for factor in factors:
        if isinstance(factor.value, Node):
            return None
        scale *= factor.value
    return scale
