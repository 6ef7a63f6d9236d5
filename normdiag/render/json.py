"""A report as its JSON document."""

from __future__ import annotations

from rich.console import Console

from normdiag.render.interface import Options
from normdiag.report import v1
from normdiag.report.report import Report


def render(report: Report, console: Console, options: Options) -> None:
    """Write the document whole, whatever `options` would fold."""
    console.file.write(v1.dumps(report))
