"""The renderers of pages, imported when one is drawn: charts take longer to import than a check."""

from __future__ import annotations

from rich.console import Console

from normdiag.render.interface import Options
from normdiag.report.compare.comparison import Comparison
from normdiag.report.report import Report
from normdiag.report.series import Series


def write_report(report: Report, console: Console, options: Options) -> None:
    """Write the page of a report, see `documents.write_report`."""
    from normdiag.render.html import documents

    documents.write_report(report, console, options)


def write_comparison(comparison: Comparison, console: Console, options: Options) -> None:
    """Write the page of a comparison, see `documents.write_comparison`."""
    from normdiag.render.html import documents

    documents.write_comparison(comparison, console, options)


def write_series(series: Series, console: Console, options: Options) -> None:
    """Write the page of several targets, see `documents.write_series`."""
    from normdiag.render.html import documents

    documents.write_series(series, console, options)
