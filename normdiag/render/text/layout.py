"""Paragraphs, labelled values and grids in rich's terms.

All text is handed over as `rich.text.Text`, never as a str, since rich would read markup and
emoji codes in a str.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from rich import box
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.measure import Measurement
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from normdiag.findings import Severity
from normdiag.render.elements import Style
from normdiag.render.text.folded_names import fold_words

INDENT = 2
GAP = 2
"""Between columns: one of padding and one that the box draws."""
LONGEST_LINE = 120
"""Of prose, which nobody reads in lines as long as a wide terminal; tables have more columns."""
STYLES: Mapping[Style, str] = {
    "plain": "",
    "quiet": "dim",
    "strong": "bold",
    "caution": "bold yellow",
    "alarm": "bold red",
}
SEVERITY_STYLES: Mapping[Severity, str] = {
    "error": "bold red",
    "warning": "bold yellow",
    "info": "bold cyan",
}
_RULED = box.Box(str(box.SIMPLE_HEAD), ascii=True)
"""Declared ASCII so that rich leaves it alone; `plain_output` replaces its line where it must."""


class Prose:
    """Words that wrap: into lines that can be read, and between the parts of long names."""

    def __init__(self, text: Text, indent: int = 0) -> None:
        self._text = text
        self._indent = indent

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        width = min(options.max_width, LONGEST_LINE)
        words = fold_words(self._text, max(1, width - self._indent))
        padded = Padding(words, (0, 0, 0, self._indent), expand=False)
        yield from console.render(padded, options.update(width=width))

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        width = min(options.max_width, LONGEST_LINE)
        return Measurement.get(console, options, self._text).with_maximum(width)


def make_paragraph(text: str | Text, style: str = "", indent: int = INDENT) -> RenderableType:
    """Return a paragraph that wraps."""
    return Prose(text if isinstance(text, Text) else Text(text, style), indent)


def make_row(text: Text) -> RenderableType:
    """Return a line that is as wide as its cells, on a terminal of any width."""
    return Padding(text, (0, 0, 0, INDENT), expand=False)


def make_facts(rows: Iterable[tuple[str, Text]], indent: int = INDENT) -> RenderableType:
    """Return labelled lines, the values one under the other."""
    grid = Table.grid(padding=(0, GAP, 0, 0))
    grid.add_column()
    grid.add_column(overflow="fold")
    for label, value in rows:
        grid.add_row(Text(label, STYLES["quiet"]), Prose(value))
    return Padding(grid, (0, 0, 0, indent), expand=False)


def make_grid(
    columns: Sequence[tuple[str, Literal["left", "right"], int | None]],
    rows: Iterable[Sequence[Text]],
) -> RenderableType:
    """Return a table of columns (title, alignment, width); wide cells are folded, never cut."""
    grid = Table(
        box=_RULED,
        show_edge=False,
        pad_edge=False,
        padding=(0, GAP - 1, 0, 0),
        header_style="",
    )
    for title, align, width in columns:
        grid.add_column(Text(title, "bold"), justify=align, overflow="fold", width=width)
    for row in rows:
        grid.add_row(*row)
    return Padding(grid, (0, 0, 0, INDENT), expand=False)
