"""The stream of each stack, layer by layer."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from rich.cells import cell_len
from rich.console import RenderableType
from rich.text import Text

from normdiag.evidence.architecture import ResidualAdd, Stack
from normdiag.evidence.stream import AddMeasurement
from normdiag.render.axis import Axis
from normdiag.render.escape import escape_text, fold_name
from normdiag.render.page import QUIET, Column, Page, heading, prose, room, table
from normdiag.render.sections import depth, growth
from normdiag.render.sort_key import nan_as_largest
from normdiag.render.units import count, number, signed, times
from normdiag.report.report import Report

_FOLD_FROM = 12
"""Layers that are all shown; a longer stack shows its first, its worst and its last."""
_ENDS = 3
_NAME_WIDTH = 18
_SMALLEST_BAR = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class _Site:
    """One residual add and what was measured at it."""

    add: ResidualAdd
    seen: AddMeasurement


def section(report: Report, page: Page) -> Iterator[RenderableType]:
    """Yield one table for each stack whose stream was measured."""
    for stack in report.architecture.stacks:
        sites = [
            _Site(add=add, seen=report.measurements.stream[add.id])
            for add in report.architecture.adds_of_stack(stack.id)
            if add.id in report.measurements.stream
        ]
        if not sites:
            continue
        yield heading(f"Stream of {escape_text(stack.id)}")
        law = report.measurements.growth.get(stack.id)
        if law is not None:
            yield prose(f"The stream {growth.sentence(law)}.")
        yield from _layers(stack, sites, page)
        yield prose("\n".join([*_extremes(sites), *depth.sentences(report, stack)]))
    head = report.measurements.head_input
    if head is not None:
        yield prose(
            f"What the head receives: rms {number(head.rms)}, max |value| {number(head.max_abs)}."
        )


def _layers(stack: Stack, sites: list[_Site], page: Page) -> Iterator[RenderableType]:
    axis = Axis.over(site.seen.out_norm.median for site in sites)
    names = [fold_name(_short(site.add, stack.id), _NAME_WIDTH) for site in sites]
    columns = [
        Column(title="layer"),
        Column(title="add", right=False, width=_width(names)),
        Column(title="norm", width=8),
        Column(title="", right=False),
        Column(title="update", width=7),
        Column(title="cosine", width=6),
        Column(title="max |y|", width=8),
        Column(title="channel", width=7),
    ]
    bar = max(room(page, columns) - len("layer"), _SMALLEST_BAR)
    shown = _shown_layers(sites, page)
    ends = {site.add.layer: site.seen.out_norm.median for site in sites}
    if len(shown) < len(ends):
        yield prose(f"norm, layer by layer: {axis.sparkline(ends.values())}")
    yield prose(
        "norm: median over tokens of the length of the stream y after the add "
        f"(bar: {axis.words()}). update: length of what is added over length of what it is "
        "added to. cosine: between the two; below 0 the add cancels.",
        QUIET,
    )
    cells = [
        [Text(name), *_cells(site, axis, bar)] for name, site in zip(names, sites, strict=True)
    ]
    yield table(columns, _rows(sites, cells, shown))


def _rows(sites: list[_Site], cells: list[list[Text]], shown: set[int]) -> Iterator[list[Text]]:
    """Yield the rows of the shown layers, each layer numbered once, and the gaps between them."""
    previous = -1
    for site, row in zip(sites, cells, strict=True):
        layer = site.add.layer
        if layer not in shown:
            continue
        if layer > previous + 1:
            yield [Text("…", QUIET), Text(count(layer - previous - 1, "layer"), QUIET)]
        yield [Text(str(layer) if layer != previous else ""), *row]
        previous = layer


def _cells(site: _Site, axis: Axis, bar: int) -> list[Text]:
    seen = site.seen
    size = seen.out_norm.median
    return [
        Text(number(size)),
        Text(axis.bar(size, bar), "cyan"),
        Text(number(seen.update_ratio.median)),
        Text(signed(seen.cosine.median)),
        Text(number(seen.max_abs)),
        Text(str(seen.max_channel)),
    ]


def _short(add: ResidualAdd, stack: str) -> str:
    """Return the id without the stack, which the heading names, and without the layer's number."""
    inside = add.id.removeprefix(f"{stack}.")
    return re.sub(r"^\d+[./]", "", inside)


def _width(names: list[str]) -> int:
    lines = [line for name in names for line in name.split("\n")]
    return min(max(map(cell_len, [*lines, "99 layers"])), _NAME_WIDTH)


def _shown_layers(sites: list[_Site], page: Page) -> set[int]:
    layers = sorted({site.add.layer for site in sites})
    if page.all_rows or len(layers) <= _FOLD_FROM:
        return set(layers)
    worst = {_worst(sites, measure).add.layer for measure in (_peak, _update, _opposed)}
    return {*layers[:_ENDS], *layers[-_ENDS:], *worst}


def _extremes(sites: list[_Site]) -> Iterator[str]:
    peak, update, opposed = (_worst(sites, measure) for measure in (_peak, _update, _opposed))
    token = peak.seen.max_token
    where = f"channel {peak.seen.max_channel}, token {token.position} of sequence {token.sequence}"
    ratio = f": {times(_peak(peak))} the median magnitude there" if _finite(peak) else ""
    yield (
        f"Value that stands out most: {number(peak.seen.max_abs)} at {escape_text(peak.add.id)}, "
        f"{where}{ratio}."
    )
    yield (
        f"Largest update: {number(update.seen.update_ratio.median)} at {escape_text(update.add.id)}. "
        f"Lowest cosine: {signed(opposed.seen.cosine.median)} at {escape_text(opposed.add.id)}."
    )
    first, last = sites[0].seen.token_cosine, sites[-1].seen.token_cosine
    if first is not None and last is not None:
        yield (
            f"Cosine between tokens: {signed(first)} after the first add, {signed(last)} after "
            "the last (at 1 all tokens are alike)."
        )


def _worst(sites: list[_Site], measure: Callable[[_Site], float]) -> _Site:
    return max(sites, key=lambda site: nan_as_largest(measure(site)))


def _peak(site: _Site) -> float:
    median = site.seen.median_abs
    return site.seen.max_abs / median if median else math.inf


def _finite(site: _Site) -> bool:
    return math.isfinite(_peak(site))


def _update(site: _Site) -> float:
    return site.seen.update_ratio.median


def _opposed(site: _Site) -> float:
    return -site.seen.cosine.median
