"""A report in one of the formats of the command line, as a string."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from normdiag.errors import UsageError

if TYPE_CHECKING:
    from normdiag.report.compare.comparison import Comparison
    from normdiag.report.report import Report


def render_report(
    report: Report | Comparison,
    format: str = "text",
    *,
    width: int = 80,
    full: bool = False,
    all_rows: bool = False,
) -> str:
    """Return a report or a comparison in a format of `normdiag render`: "text", "json", ..

    Args:
        report: of `inspect` or `trace`, a loaded one, or what `compare` returns.
        format: the name of the format.
        width: of a line, where the format has lines.
        full: all sections as `--full`, else text is the first screen; other formats are whole.
        all_rows: also every layer, norm and token, as `--all`.

    Raises:
        UsageError: there is no such format, or it needs a library that is not installed.
    """
    from rich.console import Console

    from normdiag.render.formats import COMPARISONS, FORMATS
    from normdiag.render.interface import Options
    from normdiag.report.report import Report

    formats: Mapping[str, Callable[[Any, Console, Options], None]] = COMPARISONS
    if isinstance(report, Report):
        formats = FORMATS["inspect" if report.trace is None else "trace"]
    if format not in formats:
        names = ", ".join(map(repr, formats))
        noun = "report" if isinstance(report, Report) else "comparison"
        raise UsageError(f"there is no format {format!r} of a {noun}", f"formats are: {names}")
    console = Console(file=io.StringIO(), width=width, color_system=None, force_terminal=False)
    options = Options(all_rows=all_rows, first_screen=not (full or all_rows))
    formats[format](report, console, options)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()
