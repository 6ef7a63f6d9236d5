"""What a renderer writes, as a string."""

from __future__ import annotations

import io

from rich.console import Console

from normdiag.render.formats import FORMATS, SERIES, View
from normdiag.render.interface import Options
from normdiag.report.report import Report
from normdiag.report.series import Series


def render_text(
    report: Report,
    view: View = "inspect",
    format: str = "text",
    *,
    width: int = 80,
    options: Options = Options(),  # noqa: B008 - frozen
    colour: bool = False,
    encoding: str = "utf-8",
) -> str:
    """Render a report to a console of that width, with colour, in that encoding."""
    raw = io.BytesIO()
    file = io.TextIOWrapper(raw, encoding=encoding, newline="")
    console = Console(
        file=file,
        width=width,
        force_terminal=colour,
        color_system="truecolor" if colour else None,
        legacy_windows=False,
        _environ={},
    )
    FORMATS[view][format](report, console, options)
    file.flush()
    return raw.getvalue().decode(encoding)


def written_series(
    series: Series,
    format: str = "text",
    *,
    options: Options = Options(),  # noqa: B008 - frozen
) -> str:
    """Render several reports, plain and 80 columns wide."""
    file = io.StringIO()
    SERIES[format](series, Console(file=file, width=80, _environ={}), options)
    return file.getvalue()
