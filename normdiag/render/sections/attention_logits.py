"""Attention logits: the largest of all attentions, the scale, and what q/k norms allow."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from statistics import median

from normdiag.evidence.attention_logits import AttentionLogits
from normdiag.evidence.precision import LogitBound
from normdiag.number_text import format_count, format_number
from normdiag.render.elements import Element, Heading, Sentence
from normdiag.render.escape import shorten_text
from normdiag.render.sort_key import nan_as_largest
from normdiag.report.report import Report

_UNSCALED = 1.5
"""A scale this many times 1/sqrt(d), or more, is shown beside it."""


def section(report: Report, *, all_rows: bool) -> Iterator[Element]:
    """Yield the largest logit (with `all_rows` that of each attention), scales and the bound."""
    logits = report.measurements.attention_logits
    precision = report.measurements.precision
    bounds = {} if precision is None else precision.logit_bounds
    if not logits and not bounds:
        return
    yield Heading(title="Attention logits")
    if logits:
        yield Sentence(text=_describe_largest(logits))
        yield from (Sentence(text=text) for text in _describe_scales(logits))
    if bounds:
        yield Sentence(text=_describe_bound(bounds))
    if all_rows:
        for id, each in logits.items():
            yield Sentence(text=f"{_name_attention(id)}: {_describe_place(each)}.")


def _describe_largest(logits: Mapping[str, AttentionLogits]) -> str:
    id = max(logits, key=lambda id: nan_as_largest(logits[id].max_abs))
    attentions = format_count(len(logits), "attention")
    weights = [each.median_weight for each in logits.values() if each.median_weight is not None]
    row = (
        f" Largest weight in a query row: {format_number(median(weights))} (median over rows, then "
        "over attentions)."
        if weights
        else ""
    )
    return (
        f"Largest |logit| of {attentions}, over pairs with a softmax weight above 0 in float32: "
        f"{_describe_place(logits[id])} of "
        f"{_name_attention(id)}; median of its heads {format_number(logits[id].median_max)}.{row}"
    )


def _name_attention(id: str) -> str:
    return shorten_text(id or "model")


def _describe_place(each: AttentionLogits) -> str:
    place = f"sequence {each.sequence}, head {each.head}, query {each.query}, key {each.key}"
    value = each.max_abs if each.value is None else each.value
    return f"{format_number(value)} at {place}"


def _describe_scales(logits: Mapping[str, AttentionLogits]) -> Iterator[str]:
    """Yield one sentence for each scale that is well above 1/sqrt(d)."""
    groups: dict[tuple[float, int], int] = {}
    for each in logits.values():
        if each.scale is None or each.head_width is None or each.head_width < 1:
            continue
        if abs(each.scale) * each.head_width**0.5 >= _UNSCALED:
            key = each.scale, each.head_width
            groups[key] = groups.get(key, 0) + 1
    for (scale, width), many in groups.items():
        yield (
            f"Scale of q . k: {format_number(scale)} in {format_count(many, 'attention')} of head "
            f"width {width}; 1/sqrt({width}) is {format_number(width**-0.5)}."
        )


def _describe_bound(bounds: Mapping[str, LogitBound]) -> str:
    worst = max(bounds, key=lambda name: nan_as_largest(bounds[name].bound))
    return (
        f"Attention logits: at most {format_number(bounds[worst].bound)} by the gains of "
        f"{shorten_text(worst)} and its k norm."
    )
