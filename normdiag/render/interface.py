"""What a renderer is: it writes one report to one console and returns nothing.

The console carries the file, the width and whether there is colour, so the same call serves a
terminal, a pipe, `--output FILE` and a test. Formats for machines ignore its width.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from rich.console import Console

from normdiag.render.elements import Page
from normdiag.report.compare.comparison import Comparison
from normdiag.report.report import Report
from normdiag.report.series import Series


@dataclass(frozen=True, slots=True, kw_only=True)
class RulePage:
    """What a rule is about, for formats that carry its page."""

    name: str
    summary: str
    page: str
    """Markdown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How much is shown."""

    all_rows: bool = False
    """Every layer, norm and token; else long models are folded to first, worst and last."""
    first_screen: bool = False
    """One terminal screen in place of all sections (text of a single report)."""
    sites: tuple[str, ...] = ()
    """Adds and norms to zoom into, by id (`trace`)."""
    pages: Mapping[str, RulePage] = field(default_factory=dict)
    """Code -> its page, as far as the rules of the report are known here (sarif)."""


class Renderer(Protocol):
    """One format of one view."""

    def __call__(self, report: Report, console: Console, options: Options, /) -> None:
        """Write `report` to `console`."""
        ...


class SeriesRenderer(Protocol):
    """One format of the reports of several targets."""

    def __call__(self, series: Series, console: Console, options: Options, /) -> None:
        """Write `series` to `console`."""
        ...


class ComparisonRenderer(Protocol):
    """One format of a comparison."""

    def __call__(self, comparison: Comparison, console: Console, options: Options, /) -> None:
        """Write `comparison` to `console`."""
        ...


class Drawer(Protocol):
    """One format for people, whatever the page shows."""

    def __call__(self, page: Page, console: Console, /) -> None:
        """Write `page` to `console`."""
        ...
