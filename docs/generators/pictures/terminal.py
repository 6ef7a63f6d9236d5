"""The first screen of a model with faults as a terminal shows it, as SVG."""

from __future__ import annotations

import io
from pathlib import Path

from rich.console import Console

from docs.generators.pictures.broken_model import MODEL, inspect_broken
from normdiag.render.formats import FORMATS
from normdiag.render.interface import Options

PATH = Path("docs/pictures/terminal.svg")
COLUMNS = 80
_FORMAT = """\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}">
<title>The first screen of normdiag in a terminal</title>
<style>
.{unique_id}-matrix {{ font-family: "DejaVu Sans Mono", Menlo, Consolas, monospace;
  font-size: {char_height}px; line-height: {line_height}px; }}
.{unique_id}-title {{ font-family: system-ui, sans-serif; font-size: 18px; }}
{styles}
</style>
<defs>
<clipPath id="{unique_id}-clip-terminal">
<rect x="0" y="0" width="{terminal_width}" height="{terminal_height}"/>
</clipPath>
{lines}
</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""
"""rich's own frame without its fonts, which it would load from the network."""


def draw_terminal() -> str:
    """Return the picture: the same characters for the same report, escaped by rich."""
    console = Console(
        record=True,
        file=io.StringIO(),
        width=COLUMNS,
        force_terminal=True,
        color_system="standard",
        legacy_windows=False,
        _environ={},
    )
    FORMATS["inspect"]["text"](inspect_broken(), console, Options(first_screen=True))
    return console.export_svg(
        title=f"normdiag inspect {MODEL}", code_format=_FORMAT, unique_id="terminal"
    )
