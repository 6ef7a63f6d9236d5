"""The gradient of the loss: along the depth of each stack, into the parameters, and clipped."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import pairwise

from normdiag.evidence.architecture import ResidualAdd, Stack
from normdiag.evidence.gradients import Clipping, Gradients, GradientTrend
from normdiag.number_text import (
    format_count,
    format_factor,
    format_number,
    format_percent,
    format_value,
)
from normdiag.render.axis import Axis
from normdiag.render.elements import (
    Bar,
    Cell,
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
from normdiag.render.sections.stack_names import name_stack
from normdiag.render.sort_key import nan_as_largest
from normdiag.report.report import Report

_SHOWN = 6
_LARGEST_ERROR = 0.25
"""A factor per layer with a larger relative standard error describes no depth: two of them make
half of it."""
_ADD_COLUMNS = (
    Column(title="add"),
    Column(title="||dL/dy||", align="right"),
    Column(title=""),
)
_GROUP_COLUMNS = (
    Column(title="parameters of"),
    Column(title="share", align="right", meaning="of the squared gradient norm"),
    Column(title=""),
)


def section(report: Report, *, all_rows: bool) -> Iterator[Element]:
    """Yield the loss, the gradient at the adds of every stack, and the share of each group."""
    gradients = report.measurements.gradients
    if gradients is None:
        return
    loss = gradients.loss
    yield Heading(title="Gradients")
    unit = "token" if loss.kind == "random-projection" else "target token"
    tokens = format_count(loss.tokens, unit)
    yield Sentence(
        text=f"Loss ({shorten_text(loss.kind)}): {format_number(loss.value)}, mean over {tokens}."
    )
    if loss.note is not None:
        note = shorten_text(loss.note)
        yield Sentence(text=f"{note[:1].upper()}{note[1:]}.", style="quiet")
    for stack in report.architecture.stacks:
        adds = [
            add for add in report.architecture.adds_of_stack(stack.id) if add.id in gradients.stream
        ]
        if adds:
            yield from _describe_stack(stack, adds, gradients, all_rows=all_rows)
    if gradients.groups:
        yield _tabulate_groups(gradients, all_rows=all_rows)
    # The size of a random projection's gradient is that of the projection: no optimiser clips it.
    is_own_loss = gradients.loss.kind != "random-projection"
    if is_own_loss and gradients.clipping is not None and gradients.global_norm is not None:
        text = _describe_clipping(gradients.clipping, gradients.global_norm, gradients.groups)
        yield Sentence(text=text)


def _describe_stack(
    stack: Stack, adds: list[ResidualAdd], gradients: Gradients, *, all_rows: bool
) -> Iterator[Element]:
    """One point of the series per layer; every add with its bar where all rows are wanted."""
    last_norms = {add.layer: gradients.stream[add.id] for add in adds}
    axis = Axis.fit_values(gradients.stream[add.id] for add in adds)
    yield Series(
        title=f"||dL/dy|| of {name_stack(stack.id)}",
        x_title="layer",
        x=tuple(map(str, last_norms)),
        y=tuple(last_norms.values()),
        axis=axis,
    )
    first, last = (gradients.stream[adds[index].id] for index in (0, -1))
    text = (
        f"||dL/dy|| (root mean square over tokens): {format_number(first)} at the first add, "
        f"{format_number(last)} at the last"
    )
    if last and math.isfinite(first / last):
        text += f"; first / last: {format_number(first / last)}"
    trend = gradients.trends.get(stack.id)
    if trend is not None:
        is_one_factor = (trend.rate_error or 0.0) < _LARGEST_ERROR * trend.rate
        text += f"; {_describe_trend(trend) if is_one_factor else _describe_step(adds, gradients)}"
    yield Sentence(text=f"{text}.")
    if all_rows:
        rows = (
            Row(
                cells=(
                    Name(text=add.id),
                    Number(value=gradients.stream[add.id]),
                    Bar(value=gradients.stream[add.id], axis=axis),
                )
            )
            for add in adds
        )
        yield Table(columns=_ADD_COLUMNS, rows=tuple(rows))


def _describe_step(adds: list[ResidualAdd], gradients: Gradients) -> str:
    """Where the gradient changes most between two neighbouring adds, and by which factor."""
    stream = gradients.stream
    steps = [
        (stream[before.id] / stream[after.id], before.id, after.id)
        for before, after in pairwise(adds)
        if min(stream[before.id], stream[after.id]) > 0
    ]
    factor, before, after = max(steps, key=lambda step: abs(math.log(step[0])))
    return (
        f"no one factor per layer; largest step from output to input: {format_factor(factor)} "
        f"from {shorten_text(after)} to {shorten_text(before)}"
    )


def _describe_trend(trend: GradientTrend) -> str:
    """Return the factor per layer from the output to the input, the way the gradient flows."""
    error = ""
    if trend.rate_error is not None:
        # of 1/r the error is that of r over r^2
        spread = format_number(trend.rate_error / trend.rate**2, 2)
        error = f" ± {spread} (standard error)"
    return (
        f"log-linear fit from output to input: {format_factor(1 / trend.rate)} per layer{error}, "
        f"{format_factor(1 / trend.total)} from the last add to the first"
    )


def _tabulate_groups(gradients: Gradients, *, all_rows: bool) -> Table:
    groups = gradients.groups
    ranked = sorted(groups, key=lambda group: -nan_as_largest(groups[group]))
    shown = ranked if all_rows else ranked[:_SHOWN]
    rows = [_make_group_row(Name(text=group), groups[group]) for group in shown]
    if len(ranked) > len(shown):
        rest = math.fsum(groups[group] for group in ranked[len(shown) :])
        rows.append(_make_group_row(f"{len(ranked) - len(shown):,} more", rest))
    return Table(columns=_GROUP_COLUMNS, rows=tuple(rows))


def _make_group_row(name: Cell, share: float) -> Row:
    axis = Axis(low=0.0, high=1.0, is_log=False, has_gaps=False)
    share_cell = Number(value=share, write=format_percent)
    return Row(cells=(name, share_cell, Bar(value=share, axis=axis)))


def _describe_clipping(clipping: Clipping, total: float, groups: dict[str, float]) -> str:
    text = f"Global gradient norm: {format_number(total)}. "
    max_norm = format_value(clipping.max_norm)
    if not math.isfinite(total):
        return f"{text}Clipping cannot scale it."
    if clipping.factor >= 1:
        return f"{text}Clipping at {max_norm}: no effect."
    text += f"Clipping at {max_norm}: all gradients × {format_number(clipping.factor)}"
    if clipping.dominant_group is None:
        return f"{text}."
    share = format_percent(groups.get(clipping.dominant_group))
    return f"{text}; largest share: {share}, {shorten_text(clipping.dominant_group)}."
