"""Attention logits of normalised q and k (QK norm), which the gains alone bound.

Between the norm and the product of q and k only length-preserving operations may lie: views,
casts, scales (which are collected), and a rotary embedding, detected by the sine and cosine of one
angle.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from normdiag.graph import Node
from normdiag.structure.algebraic_forms import DetectedNorm, scalar_value
from normdiag.structure.aten_operations import ATTENTION, CASTS, VIEWS, is_score_product, skip_views
from normdiag.structure.dataflow import ScaleFactor, step_back


@dataclass(frozen=True, slots=True)
class NormedLogits:
    """The logits of one attention: q . k times all of `factors`."""

    score: Node
    """The product, or the whole attention where it is one operation."""
    q: DetectedNorm
    k: DetectedNorm
    factors: tuple[ScaleFactor, ...]
    """Scales before and after the product, without the gains."""
    is_rotated: bool


@dataclass(slots=True)
class _QkPath:
    norm: DetectedNorm
    factors: list[ScaleFactor]
    is_rotated: bool


def find_normed_logits(
    region: Iterable[Node], norms: Iterable[DetectedNorm]
) -> Iterator[NormedLogits]:
    """Find the attentions in one branch whose q and k are outputs of two of `norms`."""
    by_output = {norm.output or norm.node: norm for norm in norms}
    ordered = sorted(region, key=lambda node: node.index)
    for node in ordered:
        operands = [a for a in node.args[:2] if isinstance(a, Node)]
        if not is_score_product(node) or len(operands) < 2:
            continue
        q, k = (_trace_to_norm(operand, by_output) for operand in operands)
        if q is not None and k is not None and q.norm is not k.norm:
            behind = (
                _attention_scale(node)
                if node.op in ATTENTION
                else _scales_after_product(node, ordered)
            )
            factors = (*q.factors, *k.factors, *behind)
            yield NormedLogits(node, q.norm, k.norm, factors, q.is_rotated or k.is_rotated)


def _trace_to_norm(node: Node, norms: dict[Node, DetectedNorm]) -> _QkPath | None:
    """Trace an operand of the product back to the norm that it comes from."""
    factors: list[ScaleFactor] = []
    is_rotated = False
    while node not in norms:
        unrotated = match_rotary_embedding(node)
        if unrotated is not None:
            node, rotary_factors = unrotated
            is_rotated = True
            factors += rotary_factors
            continue
        step = step_back(node)
        if step is None:
            return None
        node, factor = step
        if factor is not None:
            factors.append(factor)
    return _QkPath(norms[node], factors, is_rotated)


def match_rotary_embedding(node: Node) -> tuple[Node, list[ScaleFactor]] | None:
    """Match x cos a + rotate(x) sin a, alone or concatenated with an unrotated part of x."""
    if node.op == "cat" and node.parents:
        rotated = [t for p in node.parents if (t := match_rotary_embedding(p)) is not None]
        rest = [p for p in node.parents if match_rotary_embedding(p) is None]
        if len(rotated) == 1 and all(
            _source_values(p) == _source_values(rotated[0][0]) for p in rest
        ):
            return skip_views(rotated[0][0]), rotated[0][1]
        return None
    if node.op != "add" or len(node.parents) != 2:
        return None
    sides = [_match_rotary_product(parent) for parent in node.parents]
    if any(side is None for side in sides):
        return None
    by_wave = {side.wave: side for side in sides if side is not None}
    if set(by_wave) != {"cos", "sin"}:
        return None
    cos, sin = by_wave["cos"], by_wave["sin"]
    if cos.angle is not sin.angle or cos.factors != sin.factors:
        return None
    return (cos.x, cos.factors) if _source_values(cos.x) == _source_values(sin.x) else None


@dataclass(slots=True)
class _RotaryProduct:
    """x times the cosine or the sine of an angle."""

    x: Node
    wave: str
    angle: Node
    factors: list[ScaleFactor]


def _match_rotary_product(node: Node) -> _RotaryProduct | None:
    while node.op in CASTS and node.parents:
        node = node.parents[0]
    if node.op != "mul" or len(node.parents) != 2:
        return None
    for x, table in (node.parents, node.parents[::-1]):
        factors: list[ScaleFactor] = []
        while table.op not in ("cos", "sin"):
            times = scalar_value(table.args[1]) if table.op == "mul" else None
            if times is not None:
                factors.append(ScaleFactor(times))
            elif table.op not in VIEWS and table.op not in CASTS:
                break
            table = table.parents[0]
        else:
            return _RotaryProduct(x, table.op, table.parents[0], factors)
    return None


def _source_values(node: Node) -> frozenset[Node]:
    """The values that `node` consists of, up to slicing, negation and concatenation."""
    sources: set[Node] = set()
    pending = [node]
    while pending:
        at = pending.pop()
        if at.parents and (at.op in VIEWS or at.op in CASTS or at.op in ("neg", "cat", "stack")):
            pending.extend(at.parents)
        else:
            sources.add(at)
    return frozenset(sources)


def _attention_scale(attention: Node) -> list[ScaleFactor]:
    """The scale of a fused attention: its argument, or 1 / sqrt(d)."""
    scale = attention.kwargs.get("scale")
    if scale is None:
        scale = attention.parents[0].shape[-1] ** -0.5
    return [ScaleFactor(float(scale))]


def _scales_after_product(score: Node, ordered: list[Node]) -> list[ScaleFactor]:
    """The scales between the product and its next use."""
    factors: list[ScaleFactor] = []
    at = score
    for node in ordered:
        if at in node.parents and node.index > at.index:
            step = step_back(node)
            if step is None or step[0] is not at:
                break
            at = node
            if step[1] is not None:
                factors.append(step[1])
    return factors
