"""Which renderer writes which view in which format.

A format for people draws pages: it is a folder with `draw_page` and a line in `DRAWERS`. A format
for machines reads the report itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal, TypeVar

from rich.console import Console

from normdiag.render import csv, github, json, junit, sarif
from normdiag.render.elements import Page
from normdiag.render.html import deferred as html
from normdiag.render.interface import (
    ComparisonRenderer,
    Drawer,
    Options,
    Renderer,
    SeriesRenderer,
)
from normdiag.render.markdown.drawer import draw_page as draw_markdown
from normdiag.render.pages.comparison import build_comparison
from normdiag.render.pages.first_screen import build_first_screen
from normdiag.render.pages.inspection import build_inspection
from normdiag.render.pages.series import build_series
from normdiag.render.pages.trace import build_trace
from normdiag.render.text.drawer import draw_page as draw_text
from normdiag.report.report import Report

View = Literal["inspect", "trace"]
Document = TypeVar("Document", contravariant=True)

DRAWERS: Mapping[str, Drawer] = {"text": draw_text, "markdown": draw_markdown}
"""They draw every view."""


def draw_pages(
    build_page: Callable[[Document, Options], Page],
) -> dict[str, Callable[[Document, Console, Options], None]]:
    """Return for each drawer a renderer of the pages that `build_page` builds."""

    def pair_with(draw: Drawer) -> Callable[[Document, Console, Options], None]:
        return lambda document, console, options: draw(build_page(document, options), console)

    return {name: pair_with(draw) for name, draw in DRAWERS.items()}


_REPORTS: dict[str, Renderer] = {
    "json": json.write_report,
    "sarif": sarif.write_report,
    "junit": junit.write_report,
    "github": github.write_report,
    "html": html.write_report,
}
"""They are the same for all views."""


def _write_text(report: Report, console: Console, options: Options) -> None:
    build_page = build_first_screen if options.first_screen else build_inspection
    draw_text(build_page(report, options), console)


FORMATS: dict[View, dict[str, Renderer]] = {
    "inspect": {
        **draw_pages(build_inspection),
        "text": _write_text,
        "csv": csv.write_inspection,
        **_REPORTS,
    },
    "trace": {**draw_pages(build_trace), "csv": csv.write_trace, **_REPORTS},
}

SERIES: dict[str, SeriesRenderer] = {
    **draw_pages(build_series),
    "csv": csv.write_series,
    "json": json.write_series,
    "sarif": sarif.write_series,
    "junit": junit.write_series,
    "github": github.write_series,
    "html": html.write_series,
}
"""The same formats for several targets at once."""

COMPARISONS: dict[str, ComparisonRenderer] = {
    **draw_pages(build_comparison),
    "json": json.write_comparison,
    "html": html.write_comparison,
}
"""Of two models."""
