"""How text is laid out: headings, prose, facts and tables that fit the width without loss.

All text is handed over as `rich.text.Text`, never as a str, since rich would read markup and
emoji codes in a str; what comes from outside goes through `escape.visible` first.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rich import box
from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

INDENT = 2
GAP = 2
"""Between columns: one of padding and one that the box draws."""
QUIET = "dim"
_RULED = box.Box(str(box.SIMPLE_HEAD), ascii=True)
"""Said to be ASCII so that rich leaves it alone: `plain` spells its one line where it must."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """The width there is, and whether everything is shown."""

    width: int
    all_rows: bool

    def most(self, few: int) -> int | None:
        """Return how many of many are shown: `few`; None for all of them."""
        return None if self.all_rows else few


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column: its heading, which side it is flush with, and the room it needs."""

    title: str
    right: bool = True
    width: int | None = None


def heading(title: str, more: str = "") -> Text:
    """Return the line that opens a section, a blank one before it."""
    return Text.assemble("\n", (title, "bold"), f"  {more}" if more else "")


def prose(text: str | Text, style: str = "", indent: int = INDENT) -> RenderableType:
    """Return a paragraph that wraps."""
    return Padding(
        text if isinstance(text, Text) else Text(text, style), (0, 0, 0, indent), expand=False
    )


def facts(rows: Iterable[tuple[str, str | Text]], indent: int = INDENT) -> RenderableType:
    """Return labelled lines, the values one under the other."""
    grid = Table.grid(padding=(0, GAP, 0, 0))
    grid.add_column()
    grid.add_column(overflow="fold")
    for label, value in rows:
        grid.add_row(Text(label, QUIET), value if isinstance(value, Text) else Text(value))
    return Padding(grid, (0, 0, 0, indent), expand=False)


def table(columns: Sequence[Column], rows: Iterable[Sequence[Text]]) -> RenderableType:
    """Return a table; a cell that is too wide is folded, never cut."""
    made = Table(
        box=_RULED,
        show_edge=False,
        pad_edge=False,
        padding=(0, GAP - 1, 0, 0),
        header_style="",
    )
    for column in columns:
        made.add_column(
            Text(column.title, "bold"),
            justify="right" if column.right else "left",
            overflow="fold",
            width=column.width,
        )
    for row in rows:
        made.add_row(*row)
    return Padding(made, (0, 0, 0, INDENT), expand=False)


def room(page: Page, columns: Sequence[Column]) -> int:
    """Return how much width the columns of fixed width leave to one more."""
    taken = sum((column.width or 0) + GAP for column in columns)
    return page.width - INDENT - taken
