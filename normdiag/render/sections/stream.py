"""The stream of each stack, layer by layer."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from normdiag.evidence.architecture import ResidualAdd, Stack
from normdiag.evidence.stream import AddMeasurement
from normdiag.number_text import format_number, format_signed
from normdiag.render.axis import Axis
from normdiag.render.elements import (
    Bar,
    Column,
    Element,
    Heading,
    Name,
    Number,
    Row,
    Sentence,
    Series,
    Table,
)
from normdiag.render.escape import shorten_text
from normdiag.render.sections.depth import describe_depth
from normdiag.render.sections.growth import describe_growth
from normdiag.render.sections.layer_rows import insert_gaps, select_layers
from normdiag.render.sections.stack_names import name_stack, shorten_add_id
from normdiag.render.sort_key import nan_as_largest
from normdiag.report.report import Report

_ENDS = 3
_COLUMNS = (
    Column(title="layer", align="right", is_group=True),
    Column(title="add"),
    Column(
        title="norm",
        align="right",
        meaning="||y|| of the stream y = x + u after the add, median over tokens",
    ),
    Column(title=""),
    Column(title="update", align="right", meaning="update ratio ||u|| / ||x||, median over tokens"),
    Column(
        title="cosine",
        align="right",
        meaning="cos(x, u), median over tokens; below 0 the update opposes the stream",
    ),
    Column(title="max |y|", align="right", meaning="over tokens and channels"),
    Column(title="channel", align="right", meaning="that of max |y|"),
    Column(
        title="out ratio",
        align="right",
        meaning="||y|| / ||x||, median over tokens; below 1 the update cancels some of x",
        is_extra=True,
    ),
    Column(
        title="token cos",
        align="right",
        meaning="mean cosine between tokens of one sequence",
        is_extra=True,
    ),
    Column(
        title="5..95 %",
        align="right",
        meaning="of the tokens' ||y||",
        is_extra=True,
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Site:
    """One residual add and what was measured at it."""

    add: ResidualAdd
    measurement: AddMeasurement


def section(report: Report, *, all_rows: bool) -> Iterator[Element]:
    """Yield the growth, the layers and the extremes of each stack whose stream was measured."""
    for stack in report.architecture.stacks:
        sites = [
            _Site(add=add, measurement=report.measurements.stream[add.id])
            for add in report.architecture.adds_of_stack(stack.id)
            if add.id in report.measurements.stream
        ]
        if not sites:
            continue
        yield Heading(title=f"Stream of {name_stack(stack.id)}")
        growth = report.measurements.growth.get(stack.id)
        if growth is not None:
            yield Sentence(text=describe_growth(growth, stack.placement))
        yield from _tabulate_layers(stack, sites, all_rows=all_rows)
        for text in (*_describe_extremes(sites), *describe_depth(report, stack)):
            yield Sentence(text=text)
    head = report.measurements.head_input
    if head is not None:
        rms, max_abs = format_number(head.rms), format_number(head.max_abs)
        yield Sentence(text=f"Last hidden state: rms {rms}, max |value| {max_abs}.")


def _tabulate_layers(stack: Stack, sites: list[_Site], *, all_rows: bool) -> Iterator[Element]:
    axis = Axis.fit_values(site.measurement.out_norm.median for site in sites)
    last_norms = {site.add.layer: site.measurement.out_norm.median for site in sites}
    yield Series(
        title="Stream norm",
        x_title="layer",
        x=tuple(map(str, last_norms)),
        y=tuple(last_norms.values()),
        axis=axis,
    )
    extreme = [_find_extreme_site(sites, key).add.layer for key in _EXTREMES]
    shown = select_layers(list(last_norms), extreme, ends=_ENDS, all_rows=all_rows)
    rows = ((site.add.layer, _make_row(stack, site, axis)) for site in sites)
    yield Table(columns=_COLUMNS, rows=tuple(insert_gaps(rows, shown)))


def _make_row(stack: Stack, site: _Site, axis: Axis) -> Row:
    measurement = site.measurement
    return Row(
        cells=(
            str(site.add.layer),
            Name(text=shorten_add_id(site.add.id, stack.id)),
            Number(value=measurement.out_norm.median),
            Bar(value=measurement.out_norm.median, axis=axis),
            Number(value=measurement.update_ratio.median),
            Number(value=measurement.cosine.median, write=format_signed),
            Number(value=measurement.max_abs),
            str(measurement.max_channel),
            Number(value=None if measurement.out_ratio is None else measurement.out_ratio.median),
            Number(value=measurement.token_cosine, write=_write_cosine),
            _write_quantiles(measurement),
        )
    )


def _write_cosine(value: float | None) -> str:
    return "-" if value is None else format_signed(value)


def _write_quantiles(measurement: AddMeasurement) -> str:
    if measurement.quantiles is None:
        return "-"
    held = measurement.quantiles.out_norm
    return f"{format_number(held.p5)}..{format_number(held.p95)}"


def _describe_extremes(sites: list[_Site]) -> Iterator[str]:
    peak, update, opposed = (_find_extreme_site(sites, key) for key in _EXTREMES)
    measurement = peak.measurement
    token, ratio = measurement.max_token, _outlier_ratio(peak)
    size = f"|y| = {format_number(measurement.max_abs)}"
    peak_text = (
        f"Largest max |y| over the median of tokens' median |y|: {format_number(ratio)} ({size})"
        if math.isfinite(ratio)
        else f"Largest {size.replace(' = ', ': ')}"
    )
    yield (
        f"{peak_text} at {shorten_text(peak.add.id)}, channel {measurement.max_channel}, "
        f"token {token.position} of sequence {token.sequence}."
    )
    yield (
        f"Largest update ratio: {format_number(update.measurement.update_ratio.median)} at "
        f"{shorten_text(update.add.id)}. Lowest cosine: "
        f"{format_signed(opposed.measurement.cosine.median)} at {shorten_text(opposed.add.id)}."
    )
    first, last = sites[0].measurement.token_cosine, sites[-1].measurement.token_cosine
    if first is not None and last is not None:
        yield (
            "Mean cosine between tokens of one sequence, its first included: "
            f"{format_signed(first)} after the first add, {format_signed(last)} after the last "
            "(1: all tokens have one direction)."
        )


def _find_extreme_site(sites: list[_Site], key: Callable[[_Site], float]) -> _Site:
    """Return the site with the largest key; NaN is larger than any number."""
    return max(sites, key=lambda site: nan_as_largest(key(site)))


def _outlier_ratio(site: _Site) -> float:
    median = site.measurement.median_abs
    return site.measurement.max_abs / median if median else math.inf


def _update_ratio(site: _Site) -> float:
    return site.measurement.update_ratio.median


def _negative_cosine(site: _Site) -> float:
    return -site.measurement.cosine.median


_EXTREMES = (_outlier_ratio, _update_ratio, _negative_cosine)
