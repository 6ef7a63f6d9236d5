"""The operation that made the first value that is not finite."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import RenderableType

from normdiag.evidence.nonfinite import Operand
from normdiag.render.escape import visible
from normdiag.render.page import Page, heading, prose
from normdiag.render.sections.subject import ALARM
from normdiag.render.units import count, number
from normdiag.report.report import Report


def section(report: Report, page: Page) -> Iterator[RenderableType]:
    """Yield where finite operands first gave a value that is not."""
    first = report.measurements.first_nonfinite
    if first is None:
        return
    place = visible(first.site or first.module)
    layer = "" if first.layer is None else f", layer {first.layer}"
    line = "" if first.line is None else f", {visible(first.line)}"
    yield heading("First value that is not finite")
    yield prose(
        f"! {visible(first.operation)} made {count(first.count, visible(first.kind) + ' value')} "
        f"at {place}{layer}{line}",
        ALARM,
    )
    for operand in first.operands:
        yield prose(_operand(operand), indent=4)
    if first.exact_max is not None:
        yield prose(
            f"the same operation in float64 gives at most {number(first.exact_max)} in magnitude",
            indent=4,
        )
    yield prose("What comes after it is not finite either, and says nothing more.")


def _operand(operand: Operand) -> str:
    said = f"{visible(operand.name)}: {number(operand.min)} to {number(operand.max)}"
    return said + (f", {operand.nonfinite:,} not finite" if operand.nonfinite else ", all finite")
