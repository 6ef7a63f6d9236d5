"""A report in one of the formats of the command line, as a string."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from normdiag.errors import UsageError

if TYPE_CHECKING:
    from normdiag.report.report import Report


def render_report(
    report: Report,
    format: str = "text",
    *,
    width: int = 80,
    full: bool = False,
    all_rows: bool = False,
) -> str:
    """Return a report in a format of `normdiag render`: "text", "markdown", "csv", "json", ..

    Args:
        report: of `inspect` or `trace`, or a loaded one.
        format: the name of the format.
        width: of a line, where the format has lines.
        full: all sections as `--full`, else text is the first screen; other formats are whole.
        all_rows: also every layer, norm and token, as `--all`.

    Raises:
        UsageError: there is no such format, or it needs a library that is not installed.
    """
    from rich.console import Console

    from normdiag.render.formats import FORMATS
    from normdiag.render.interface import Options

    formats = FORMATS["inspect" if report.trace is None else "trace"]
    if format not in formats:
        names = ", ".join(map(repr, formats))
        raise UsageError(f"there is no format {format!r} of a report", f"formats are: {names}")
    console = Console(file=io.StringIO(), width=width, color_system=None, force_terminal=False)
    options = Options(all_rows=all_rows, first_screen=not (full or all_rows))
    formats[format](report, console, options)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()
