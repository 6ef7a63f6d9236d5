"""The headroom of number formats: a row each, and what would help."""

from __future__ import annotations

import math
from collections.abc import Iterator
from statistics import median

from normdiag.evidence.precision import FormatHeadroom, Precision, Remedy
from normdiag.number_text import (
    UNKNOWN,
    format_count,
    format_factor,
    format_percent,
)
from normdiag.render.elements import Column, Element, Heading, Name, Number, Row, Sentence, Table
from normdiag.render.escape import shorten_text
from normdiag.render.sections.stack_names import name_stack
from normdiag.report.report import Report

_UNSCALED = ("float16", "bfloat16")
"""Formats that models are run in as they are; to those of 8 bits tensors are scaled one by one."""
_COLUMNS = (
    Column(title="format"),
    Column(
        title="headroom",
        align="right",
        meaning=(
            "largest number of the format / largest |value| at an add, a norm's input or inside "
            "a branch; below 1 it overflows"
        ),
    ),
)


def section(report: Report, *, all_rows: bool) -> Iterator[Element]:
    """Yield one row per format, then what does not fit."""
    precision = report.measurements.precision
    if precision is None or not precision.formats:
        return
    yield Heading(title="Number formats")
    rows = (_make_row(name, headroom) for name, headroom in precision.formats.items())
    yield Table(columns=_list_columns(precision), rows=tuple(rows))
    for name in _UNSCALED:
        if name in precision.formats:
            for text in _describe_overflows(name, precision.formats[name], precision):
                yield Sentence(text=text)


def _list_columns(precision: Precision) -> tuple[Column, ...]:
    absorbed = "share of update elements with x + u = x, median and largest over the adds"
    samples = {name: each.absorbed_sample for name, each in precision.formats.items()}
    sizes = [size for size in samples.values() if size is not None]
    if sizes:
        absorbed += f", over {format_count(min(sizes), 'sampled token')}"
        counted = [name for name, size in samples.items() if size is None]
        absorbed += f" ({', '.join(counted)}: over all tokens)" if counted else ""
    return (
        *_COLUMNS,
        Column(title="absorbed", align="right", meaning=absorbed),
        Column(title="eps = 0", align="right", meaning="norms whose epsilon rounds to 0"),
        Column(title="least headroom at"),
    )


def _make_row(name: str, headroom: FormatHeadroom) -> Row:
    return Row(
        cells=(
            name,
            Number(value=headroom.headroom, write=format_factor),
            _format_absorbed(headroom),
            str(len(headroom.underflowing_epsilons)),
            Name(text=headroom.headroom_site or UNKNOWN),
        )
    )


def _format_absorbed(headroom: FormatHeadroom) -> str:
    shares = list(headroom.absorbed_updates.values())
    if not shares:
        return UNKNOWN
    return f"{format_percent(median(shares))}, {format_percent(max(shares))}"


def _describe_overflows(name: str, headroom: FormatHeadroom, precision: Precision) -> Iterator[str]:
    """Yield what does not fit into one format."""
    for stack, remedy in headroom.remedies.items():
        yield f"{name}: {_describe_remedy(name_stack(stack), remedy)}."
    if headroom.square_headroom is not None and headroom.square_headroom < 1:
        square_format = precision.square_formats.get(headroom.square_headroom_site or "")
        where = "in this run" if square_format == name else f"in norms that square in {name}"
        site = shorten_text(headroom.square_headroom_site or UNKNOWN)
        yield f"{name}: squares overflow {where}; least headroom at {site}."
    if headroom.overflowing_gains:
        gains = format_count(len(headroom.overflowing_gains), "gain")
        first = shorten_text(headroom.overflowing_gains[0])
        yield f"{name}: overflow of {gains} when cast, first {first}."


def _describe_remedy(stack: str, remedy: Remedy) -> str:
    text = f"stream of {stack} overflows from layer {remedy.layer} on"
    if remedy.factor is None:
        return f"{text}; keep it in float32 from there"
    share = ""
    if remedy.eps_share is not None and math.isfinite(remedy.eps_share.max):
        share = f", eps share up to {format_percent(remedy.eps_share.max)}"
    power = round(math.log2(remedy.factor))
    return (
        f"{text}; with all that is written to it multiplied by 2^{power} it fits with a factor 2 "
        f"to spare, and its norms undo the scale{share}"
    )
