"""A report as its JSON document."""

from __future__ import annotations

from rich.console import Console

from normdiag.render.interface import Options
from normdiag.report import v1
from normdiag.report.report import Report
from normdiag.report.series import Series


def render(report: Report, console: Console, options: Options) -> None:
    """Write the document whole, whatever `options` would fold."""
    console.file.write(v1.dumps(report))


def render_series(series: Series, console: Console, options: Options) -> None:
    """Write the reports of several targets as one document."""
    console.file.write(v1.dumps(series))
