"""Token by layer as text: who stands out, and how every token fares through the layers."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console, Group, RenderableType

from normdiag.render.interface import Options
from normdiag.render.page import Page, heading, prose
from normdiag.render.plain import Plain
from normdiag.render.sections import nonfinite, subject, tokens, zoom
from normdiag.report.report import Report


def render_trace(report: Report, console: Console, options: Options) -> None:
    """Write the heat tables of every sequence, or with `options.sites` those sites in numbers.

    Raises UsageError, before anything is written, for a site that the report has not.
    """
    page = Page(width=console.width, all_rows=options.all_rows)
    console.print(Plain(Group(*_parts(report, page, options))))


def _parts(report: Report, page: Page, options: Options) -> Iterator[RenderableType]:
    yield from subject.section(report, page)
    yield from nonfinite.section(report, page)
    if report.trace is None:
        yield heading("Tokens")
        yield prose("The report holds no tokens: it was made by inspect. Make it with trace.")
        return
    for id in options.sites:
        yield from zoom.section(report, id, page)
    if not options.sites:
        for trace in report.trace:
            yield from tokens.section(report, trace, page)
