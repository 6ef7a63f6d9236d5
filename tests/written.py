"""What a renderer writes, as a string."""

from __future__ import annotations

import io

from rich.console import Console

from normdiag.render.formats import FORMATS, View
from normdiag.render.interface import Options
from normdiag.report.report import Report


def written(
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
