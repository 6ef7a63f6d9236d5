"""The gradient of the loss: along the depth of each stack, into the parameters, and clipped."""

from __future__ import annotations

import math
from collections.abc import Iterator

from rich.console import RenderableType
from rich.text import Text

from normdiag.evidence.architecture import ResidualAdd, Stack
from normdiag.evidence.gradients import Clipping, Gradients, GradientTrend
from normdiag.render.axis import Axis
from normdiag.render.escape import escape_text, fold_name
from normdiag.render.page import QUIET, Column, Page, heading, prose, room, table
from normdiag.render.sort_key import nan_as_largest
from normdiag.render.units import count, number, percent, times, whole
from normdiag.report.report import Report

_SHOWN = 6
_NAME_WIDTH = 36
_SMALLEST_BAR = 4


def section(report: Report, page: Page) -> Iterator[RenderableType]:
    """Yield the loss, the gradient at the adds of every stack, and who has how much of it."""
    seen = report.measurements.gradients
    if seen is None:
        return
    loss = seen.loss
    yield heading("Gradient")
    yield prose(
        f"Loss ({escape_text(loss.kind)}): {number(loss.value)}, "
        f"mean over {count(loss.tokens, 'target token')}."
    )
    if loss.note is not None:
        note = escape_text(loss.note)
        yield prose(f"{note[:1].upper()}{note[1:]}.", QUIET)
    for stack in report.architecture.stacks:
        adds = [
            add
            for add in report.architecture.adds_of_stack(stack.id)
            if add.id in seen.stream
        ]
        if adds:
            yield from _along(stack, adds, seen, page)
    if seen.groups:
        yield _groups(seen, page)
    if seen.clipping is not None and seen.global_norm is not None:
        yield prose(_clipped(seen.clipping, seen.global_norm, seen.groups))


def _along(
    stack: Stack, adds: list[ResidualAdd], seen: Gradients, page: Page
) -> Iterator[RenderableType]:
    """One step of the line per layer; every add with its bar where all rows are wanted."""
    ends = {add.layer: seen.stream[add.id] for add in adds}
    axis = Axis.over(seen.stream[add.id] for add in adds)
    yield prose(f"{escape_text(stack.id)}, layer by layer: {axis.sparkline(ends.values())}")
    first, last = (seen.stream[adds[place].id] for place in (0, -1))
    said = f"||dL/dy||, {number(first)} at the first add, {number(last)} at the last"
    trend = seen.trends.get(stack.id)
    yield prose(said + (f"; {_trend(trend)}." if trend is not None else "."))
    if page.all_rows:
        yield _adds(adds, seen, axis, page)


def _trend(trend: GradientTrend) -> str:
    """How the gradient changes on its way back, from the last layer to the first."""
    verb, back = ("shrinks", trend.rate) if trend.rate > 1 else ("grows", 1 / trend.rate)
    error = ""
    if trend.rate_error is not None:
        # of 1/r the error is that of r over r^2
        spread = trend.rate_error if trend.rate > 1 else trend.rate_error / trend.rate**2
        error = f", give or take {number(spread, 2)}"
    total = trend.total if trend.rate > 1 else 1 / trend.total
    return f"it {verb} by {number(back, 4)} per layer on its way back{error}, {times(total)} in all"


def _adds(adds: list[ResidualAdd], seen: Gradients, axis: Axis, page: Page) -> RenderableType:
    fixed = [Column(title="add", right=False), Column(title="||dL/dy||", width=9)]
    names = [fold_name(add.id, _NAME_WIDTH) for add in adds]
    longest = max(len(line) for name in names for line in name.split("\n"))
    bar = max(room(page, fixed) - longest, _SMALLEST_BAR)
    rows = [
        [
            Text(name),
            Text(number(seen.stream[add.id])),
            Text(axis.bar(seen.stream[add.id], bar), "cyan"),
        ]
        for name, add in zip(names, adds, strict=True)
    ]
    return table([*fixed, Column(title=axis.words(), right=False)], rows)


def _groups(seen: Gradients, page: Page) -> RenderableType:
    ranked = sorted(seen.groups, key=lambda group: -nan_as_largest(seen.groups[group]))
    shown = ranked if page.all_rows else ranked[:_SHOWN]
    fixed = [Column(title="parameters of", right=False), Column(title="share", width=7)]
    names = [fold_name(group, _NAME_WIDTH) for group in shown]
    longest = max(len(line) for name in names for line in name.split("\n"))
    bar = max(room(page, fixed) - max(longest, len(fixed[0].title)), _SMALLEST_BAR)
    axis = Axis(low=0.0, high=1.0, log=False, gaps=False)
    rows = [
        [
            Text(name),
            Text(percent(seen.groups[group])),
            Text(axis.bar(seen.groups[group], bar), "cyan"),
        ]
        for name, group in zip(names, shown, strict=True)
    ]
    if len(ranked) > len(shown):
        rest = math.fsum(seen.groups[group] for group in ranked[len(shown) :])
        rows.append(
            [Text(f"{len(ranked) - len(shown):,} more", QUIET), Text(percent(rest)), Text("")]
        )
    return table([*fixed, Column(title="of the squared norm", right=False)], rows)


def _clipped(clipping: Clipping, total: float, groups: dict[str, float]) -> str:
    said = f"The gradient of all parameters has the norm {number(total)}. "
    if not math.isfinite(total):
        return f"{said}Clipping makes no step of that."
    if clipping.factor >= 1:
        return f"{said}Clipping at {whole(clipping.max_norm)} leaves it as it is."
    said += f"Clipping at {whole(clipping.max_norm)} scales it by {number(clipping.factor)}"
    if clipping.dominant_group is None:
        return f"{said}."
    share = percent(groups.get(clipping.dominant_group))
    return f"{said}; the largest part of what is left, {share}, is of {escape_text(clipping.dominant_group)}."
