"""A report as its JSON document."""

from __future__ import annotations

from rich.console import Console

from normdiag.render.interface import Options
from normdiag.report import v1
from normdiag.report.compare.comparison import Comparison
from normdiag.report.report import Report
from normdiag.report.series import Series


def write_report(report: Report, console: Console, options: Options) -> None:
    """Write the document whole, whatever `options` would fold."""
    console.file.write(v1.dump_record(report))


def write_series(series: Series, console: Console, options: Options) -> None:
    """Write the reports of several targets as one document."""
    console.file.write(v1.dump_record(series))


def write_comparison(comparison: Comparison, console: Console, options: Options) -> None:
    """Write a comparison whole."""
    console.file.write(v1.dump_record(comparison))
