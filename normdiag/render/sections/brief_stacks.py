"""The stacks, a line each: formula, layers, norm, and how the stream grows."""

from __future__ import annotations

import math
from collections.abc import Iterator

from normdiag.evidence.architecture import Stack
from normdiag.number_text import format_count, format_factor
from normdiag.render.axis import Axis
from normdiag.render.elements import Element, Fact, FactList, Heading
from normdiag.render.escape import shorten_text
from normdiag.render.glyphs import draw_sparkline
from normdiag.render.sections.growth import NORMED_SUMS
from normdiag.render.sections.stack_names import name_stack
from normdiag.report.report import Report

_SHOWN = 3
_MARKS = 12
"""Of a sparkline: a longer stack is drawn at as many places, evenly spaced, with both ends."""


def section(report: Report, *, all_rows: bool) -> Iterator[Element]:
    """Yield the number of norms and adds, and the first stacks."""
    architecture = report.architecture
    if not (architecture.stacks or architecture.norms):
        return
    norms = format_count(len(architecture.norms), "norm")
    adds = format_count(len(architecture.residual_adds), "residual add")
    yield Heading(title="Stacks", detail=f"{norms}, {adds}")
    stacks = architecture.stacks
    shown = stacks if len(stacks) <= _SHOWN else stacks[: _SHOWN - 1]
    facts = [
        Fact(label=name_stack(stack.id), lines=tuple(_describe_stack(report, stack)))
        for stack in shown
    ]
    if len(shown) < len(stacks):
        facts.append(Fact(label="more", lines=(f"{len(stacks) - len(shown):,} stacks",)))
    if not stacks:
        facts.append(Fact(label="none", lines=("no stack of residual adds was found",)))
    yield FactList(facts=tuple(facts), has_clauses=True)


def _describe_stack(report: Report, stack: Stack) -> Iterator[str]:
    """Formula and layers; last add over first, drawn; that at initialisation; the law."""
    yield f"{stack.placement}  {shorten_text(stack.drawing)}"
    yield format_count(stack.layers, "layer")
    growth = report.measurements.growth.get(stack.id)
    if growth is None or not math.isfinite(growth.total):
        return
    is_normed = stack.placement in NORMED_SUMS  # a norm takes the size of each sum away
    what = "sums before their norms" if is_normed else "||y||"
    yield f"{what} {format_factor(growth.total)} {_draw_norms(report, stack)}"
    if growth.init_total is not None and not is_normed:
        yield f"{format_factor(growth.init_total)} at initialisation"
    if growth.leaps:
        yield format_count(len(growth.leaps), "leap")
    if growth.law not in ("undecided", "constant"):  # constant: within a factor, which is said
        yield f"{growth.law} apart from leaps" if growth.leaps else growth.law


def _draw_norms(report: Report, stack: Stack) -> str:
    """Draw ||y|| after the first add and after every layer."""
    adds = report.architecture.adds_of_stack(stack.id)
    sizes = [
        (add.layer, report.measurements.stream[add.id].out_norm.median)
        for add in adds
        if add.id in report.measurements.stream
    ]
    values = list(dict(sizes).values())
    if len(sizes) > len(values):  # the growth begins at the first add
        values.insert(0, sizes[0][1])
    if len(values) > _MARKS:
        values = [values[round(k * (len(values) - 1) / (_MARKS - 1))] for k in range(_MARKS)]
    return draw_sparkline(Axis.fit_values(values), values)
