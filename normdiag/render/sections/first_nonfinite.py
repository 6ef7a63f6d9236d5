"""The operation that produced the first non-finite value."""

from __future__ import annotations

from collections.abc import Iterator

from normdiag.evidence.nonfinite import Operand
from normdiag.number_text import format_count, format_number
from normdiag.render.elements import Element, Heading, ItemList, Sentence
from normdiag.render.escape import shorten_text
from normdiag.report.report import Report


def section(report: Report, *, all_rows: bool) -> Iterator[Element]:
    """Yield the first operation whose operands are finite and whose result is not."""
    first = report.measurements.first_nonfinite
    if first is None:
        return
    place = shorten_text(first.site or first.module)
    layer = "" if first.layer is None else f", layer {first.layer}"
    line = "" if first.line is None else f", {shorten_text(first.line)}"
    count = format_count(first.count, f"{shorten_text(first.kind)} value")
    yield Heading(title="First non-finite value")
    yield Sentence(
        text=f"! {shorten_text(first.operation)}: {count} at {place}{layer}{line}", style="alarm"
    )
    items = [_describe_operand(operand) for operand in first.operands]
    if first.exact_max is not None:
        items.append(f"same operation in float64: max |value| {format_number(first.exact_max)}")
    yield ItemList(items=tuple(items))
    yield Sentence(text="Values downstream of it are not finite either.")


def _describe_operand(operand: Operand) -> str:
    low, high = format_number(operand.min), format_number(operand.max)
    lost = f"{operand.nonfinite:,} not finite" if operand.nonfinite else "all finite"
    return f"{shorten_text(operand.name)}: {low} to {high}, {lost}"
