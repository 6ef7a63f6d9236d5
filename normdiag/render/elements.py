"""What a page consists of, as data: headings, sentences, lists, tables, series and heat maps.

A section yields elements; a drawer writes them as text, Markdown or HTML. Every string in them is
as it came: names, token texts and messages may come from outside, so a drawer escapes every string
that it writes, whatever its origin. Widths, colours and characters are the drawer's own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from normdiag.findings import Severity
from normdiag.number_text import format_number
from normdiag.render.axis import Axis

Style = Literal["plain", "quiet", "strong", "caution", "alarm"]
"""Ordinary words; explanations; what is worth emphasis; what is doubtful; what is wrong."""
Extreme = Literal["largest", "smallest"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Heading:
    """The beginning of a page (level 1), of a section (2) or of a part of one (3)."""

    title: str
    detail: str = ""
    level: Literal[1, 2, 3] = 2
    severity: Severity | None = None
    is_lead: bool = False
    """A format that is read from the top shows this section unfolded and first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sentence:
    """One paragraph."""

    text: str
    style: Style = "plain"
    severity: Severity | None = None
    """Written in front of the text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """A label and its value, which may have several lines."""

    label: str
    lines: tuple[str, ...]
    style: Style = "plain"
    severity: Severity | None = None
    """What the label names, if it is one."""
    most_lines: int = 2
    """Over how many lines clauses may go, where the page has room."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FactList:
    """Labelled values, one below the other."""

    facts: tuple[Fact, ...]
    has_clauses: bool = False
    """The lines of each fact are clauses: formats with lines write as many as fit, behind each
    other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemList:
    """Items below the sentence that introduces them."""

    items: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Name:
    """The id of a site, a module or a tensor: a cell that may be broken at its dots."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Number:
    """A number and how it is written."""

    value: float | None
    write: Callable[[float | None], str] = format_number
    bound: Literal["", "<", ">"] = ""
    """The value is an upper (<) or lower (>) bound of the quantity."""

    @property
    def written_value(self) -> str:
        """The number in characters."""
        return f"{self.bound if self.value is not None else ''}{self.write(self.value)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """A value to be drawn as a bar."""

    value: float
    axis: Axis


Cell = str | Name | Number | Bar


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column of a table."""

    title: str
    align: Literal["left", "right"] = "left"
    unit: str = ""
    meaning: str = ""
    """Definition, with the statistic and its reference value; written in front of the table."""
    is_group: bool = False
    """Successive rows with one value belong together: it may be written once."""
    is_extra: bool = False
    """Left out where a line has no room for it; formats without lines show it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One cell per column."""

    cells: tuple[Cell, ...]
    style: Style = "plain"


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """Rows that are not shown here, such as "16 layers"."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Columns and the rows that are shown."""

    columns: tuple[Column, ...]
    rows: tuple[Row | Gap, ...]

    def select_columns(self, places: Sequence[int]) -> Table:
        """Return the table with the columns at `places` only."""
        rows = (
            row
            if isinstance(row, Gap)
            else replace(row, cells=tuple(row.cells[place] for place in places))
            for row in self.rows
        )
        return Table(columns=tuple(self.columns[place] for place in places), rows=tuple(rows))

    def describe_columns(self) -> str:
        """Return what the columns and bars mean, as one paragraph."""
        meanings = [f"{each.title}: {each.meaning}." for each in self.columns if each.meaning]
        cells = (cell for row in self.rows if isinstance(row, Row) for cell in row.cells)
        axes = dict.fromkeys(cell.axis for cell in cells if isinstance(cell, Bar))
        meanings += [f"Bars: {axis.describe_scale()}." for axis in axes]
        return " ".join(meanings)


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """One quantity y over x, with every point, for a line chart."""

    title: str
    x_title: str
    x: tuple[str, ...]
    y: tuple[float, ...]
    axis: Axis
    unit: str = ""
    reference: float | None = None
    """A value to compare with, such as 1 for a ratio."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeatMap:
    """One quantity over rows (tokens) and columns (layers), with every value."""

    title: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    cells: tuple[tuple[float, ...], ...]
    """One tuple per row, of as many values as there are columns."""
    extreme: Extreme
    """Which value stands for several where cells are merged."""
    shown_rows: tuple[int, ...]
    """Indices of the rows for formats without room for all, in order."""
    merges_columns: bool = True
    """Columns without room are merged into their extreme; else the map is drawn in parts."""

    def merge_columns(self, most: int) -> HeatMap:
        """Return the map with at most `most` columns, neighbours merged into their extreme."""
        size = self.count_merged(most)
        starts = range(0, len(self.columns), size)
        return replace(
            self,
            columns=tuple(self.columns[start] for start in starts),
            cells=tuple(
                tuple(pick_extreme(row[start : start + size], self.extreme) for start in starts)
                for row in self.cells
            ),
        )

    def count_merged(self, most: int) -> int:
        """Return how many columns go into one where at most `most` are shown."""
        return -(-len(self.columns) // most)


def pick_extreme(values: Sequence[float], extreme: Extreme) -> float:
    """Return the value that stands for `values`: nan where one of them is."""
    if any(map(math.isnan, values)):
        return math.nan
    return max(values) if extreme == "largest" else min(values)


Element = Heading | Sentence | FactList | ItemList | Table | Series | HeatMap


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """One document. Text is read from its end, so it is drawn in order; Markdown from its top."""

    title: str
    """The target; of several, how many."""
    outcome: str
    """The verdict in one line."""
    summary: tuple[Element, ...] = ()
    """For formats that are read from the top: a row per finding."""
    elements: tuple[Element, ...]
    most_lines: int | None = None
    """How many lines text has for it; None: any number."""
    brief: tuple[Element, ...] = ()
    """Instead of `elements`, where text draws the page as one of several."""
    is_settled: bool = False
    """It passed, and the row of a table of several says all: text does not draw it again."""
    entries: tuple[Page, ...] = ()
    """The pages of several targets."""
