"""What number formats would do to what was seen: a row each, and what would help."""

from __future__ import annotations

import math
from collections.abc import Iterator
from statistics import median

from rich.console import RenderableType
from rich.text import Text

from normdiag.evidence.precision import Format, Precision, Remedy
from normdiag.render.badness import badness
from normdiag.render.escape import folded, visible
from normdiag.render.page import QUIET, Column, Page, heading, prose, room, table
from normdiag.render.units import UNKNOWN, count, number, percent, times
from normdiag.report.report import Report

_FULL = ("float16", "bfloat16")
"""Formats that models are run in as they are; to those of 8 bits tensors are scaled one by one."""
_NARROWEST_NAME = 12


def section(report: Report, page: Page) -> Iterator[RenderableType]:
    """Yield one row per format, then what does not fit."""
    seen = report.measurements.precision
    if seen is None or not seen.formats:
        return
    yield heading("Number formats")
    yield prose(
        "headroom: the largest number of the format over the largest value seen, at an add, a "
        "norm's input or inside a branch; below 1x it overflows. swallowed: share of a branch's "
        "elements that leave the stream as it was, median and largest over the adds. eps lost: "
        "norms whose epsilon rounds to 0.",
        QUIET,
    )
    yield _table(seen, page)
    for name in _FULL:
        if name in seen.formats:
            for said in _said(name, seen.formats[name], seen):
                yield prose(said)
    if seen.logit_bounds:
        yield prose(_logits(seen))


def _table(seen: Precision, page: Page) -> RenderableType:
    fixed = [
        Column(title="format", right=False, width=max(map(len, seen.formats))),
        Column(title="headroom", width=9),
        Column(title="swallowed", width=15),
        Column(title="eps lost", width=8),
    ]
    width = max(room(page, fixed), _NARROWEST_NAME)
    rows = [
        [
            Text(visible(name)),
            Text(UNKNOWN if found.headroom is None else times(found.headroom)),
            Text(_swallowed(found)),
            Text(str(len(found.lost_epsilons))),
            Text(folded(found.tightest or UNKNOWN, width)),
        ]
        for name, found in seen.formats.items()
    ]
    return table([*fixed, Column(title="tightest at", right=False)], rows)


def _swallowed(found: Format) -> str:
    shares = list(found.swallowed.values())
    return f"{percent(median(shares))}, {percent(max(shares))}" if shares else UNKNOWN


def _said(name: str, found: Format, seen: Precision) -> Iterator[str]:
    """What goes wrong in one format."""
    for stack, remedy in found.remedies.items():
        yield f"{name}: {_remedy(visible(stack), remedy)}"
    if found.square_headroom is not None and found.square_headroom < 1:
        squared_in = seen.squared_in.get(found.tightest_square or "")
        where = "here" if squared_in == name else f"where a norm squares in {name} itself"
        yield (
            f"{name}: squares overflow {where}, most of all at "
            f"{visible(found.tightest_square or UNKNOWN)}."
        )
    if found.lost_gains:
        gains = count(len(found.lost_gains), "gain")
        yield f"{name}: a cast overflows {gains}, first {visible(found.lost_gains[0])}."


def _remedy(stack: str, remedy: Remedy) -> str:
    said = f"the stream of {stack} does not fit from layer {remedy.layer} on"
    if remedy.factor is None:
        return f"{said}; from there it must stay in float32."
    power = round(math.log2(remedy.factor))
    share = "" if remedy.eps_share is None else f", with an eps share of up to {_most(remedy)}"
    return (
        f"{said}. It fits, twice over, with all that is written to it times 2^{power}: its norms "
        f"undo that{share}."
    )


def _most(remedy: Remedy) -> str:
    return percent(None if remedy.eps_share is None else remedy.eps_share.max)


def _logits(seen: Precision) -> str:
    worst = max(seen.logit_bounds, key=lambda name: badness(seen.logit_bounds[name].bound))
    largest = [each.seen for each in seen.logit_bounds.values() if each.seen is not None]
    beside = f"; the largest computed is {number(max(largest))}" if largest else ""
    return (
        f"Attention logits cannot exceed {number(seen.logit_bounds[worst].bound)}, by the gains "
        f"of {visible(worst)} and its k norm{beside}."
    )
