"""Which columns of a table a line has room for, and how wide each is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.cells import cell_len

from normdiag.render.elements import Bar, Cell, Column, Gap, Name, Number, Row, Table
from normdiag.render.escape import escape_text
from normdiag.render.text.folded_names import measure_name
from normdiag.render.text.layout import GAP, INDENT

_NARROWEST_NAME = 12
"""Names without a place to break them are broken anywhere to this width, if they must be."""
_NAME_BESIDE_BAR = 18
"""Names are not broken to less than this for the sake of a bar."""
_SMALLEST_BAR, _FAIR_BAR, _LONGEST_BAR = 4, 12, 40
_BAR_BESIDE_EXTRA = 24
"""Bars are not shortened to less than this for the sake of one more column."""


def choose_columns(table: Table, width: int) -> Table:
    """Return the table with those of its extra columns that have values, and room beside whole
    names."""
    shown = [place for place, column in enumerate(table.columns) if not column.is_extra]
    cells = _list_cells(table)
    for place, column in enumerate(table.columns):
        if column.is_extra and any(write_cell(cell) != "-" for cell in cells[place]):
            with_it = sorted([*shown, place])
            if _measure_whole(table.select_columns(with_it)) <= width:
                shown = with_it
    return table.select_columns(shown)


def measure_columns(table: Table, width: int) -> list[int]:
    """Return the width of each column, of what stands in it in full where there is room.

    Where there is none, first words are folded, then names between their parts, then names anywhere
    but in numbers; bars have what is left.
    """
    cells = _list_cells(table)
    whole = _measure_naturally(table)
    bars = _find_cells(cells, Bar)
    names = _find_cells(cells, Name)
    words = [
        place
        for place, column in enumerate(table.columns)
        if column.align == "left" and place not in {*names, *bars}
    ]
    widths = list(whole)
    for place in bars:
        widths[place] = _FAIR_BAR
    for place in names:
        if bars:
            widths[place] = min(whole[place], _NAME_BESIDE_BAR)
        else:
            widths[place] = _measure_pieces(table.columns[place], cells[place])
    for place in words:
        widths[place] = _measure_words(table.columns[place], cells[place])
    room = width - INDENT - GAP * (len(widths) - 1) - sum(widths)
    for place in names:
        room = _share_room(room, widths, {place: min(whole[place], _measure_parts(cells[place]))})
    for place in names:
        if whole[place] - widths[place] <= room:  # some more alone would save no line
            room = _share_room(room, widths, {place: whole[place]})
    for wanted in (words, names):
        room = _share_room(room, widths, {place: whole[place] for place in wanted})
    for place in bars:
        widths[place] = min(max(widths[place] + room, _SMALLEST_BAR), _LONGEST_BAR)
    return widths


def _share_room(room: int, widths: list[int], wanted: Mapping[int, int]) -> int:
    """Widen columns to what is wanted, the narrowest first, and return the room that is left."""
    while room > 0:
        narrow = [place for place, wide in wanted.items() if widths[place] < wide]
        if not narrow:
            break
        widths[min(narrow, key=lambda place: widths[place])] += 1
        room -= 1
    return room


def write_title(column: Column) -> str:
    """Return the heading of a column, with its unit."""
    return escape_text(f"{column.title} [{column.unit}]" if column.unit else column.title)


def write_cell(cell: Cell) -> str:
    """Return a cell in characters; a bar has none."""
    if isinstance(cell, Number):
        return cell.written_value
    if isinstance(cell, Bar):
        return ""
    return escape_text(cell.text if isinstance(cell, Name) else cell)


def split_gap(gap: Gap, first: Column) -> tuple[str, ...]:
    """Return the text of a gap, beside the mark where the first column is one of numbers."""
    text = escape_text(gap.text)
    return ("…", text) if first.align == "right" else (f"… {text}",)


def _measure_whole(table: Table) -> int:
    """The width of the table with everything in full and a bar that says something."""
    natural = _measure_naturally(table)
    for place in _find_cells(_list_cells(table), Bar):
        natural[place] = _BAR_BESIDE_EXTRA
    return INDENT + GAP * (len(natural) - 1) + sum(natural)


def _list_cells(table: Table) -> list[list[Cell]]:
    """The cells of each column."""
    rows = [row for row in table.rows if isinstance(row, Row)]
    return [[row.cells[place] for row in rows] for place in range(len(table.columns))]


def _measure_naturally(table: Table) -> list[int]:
    natural = [
        max(cell_len(write_title(column)), *(cell_len(write_cell(cell)) for cell in inside), 1)
        for column, inside in zip(table.columns, _list_cells(table), strict=True)
    ]
    for gap in (row for row in table.rows if isinstance(row, Gap)):
        for place, part in enumerate(split_gap(gap, table.columns[0])):
            natural[place] = max(natural[place], cell_len(part))
    return natural


def _find_cells(cells: Sequence[Sequence[Cell]], kind: type) -> list[int]:
    """Return the columns that hold cells of one kind."""
    return [k for k, inside in enumerate(cells) if any(isinstance(c, kind) for c in inside)]


def _measure_pieces(column: Column, inside: Sequence[Cell]) -> int:
    pieces = (measure_name(each.text)[0] for each in inside if isinstance(each, Name))
    return max(cell_len(write_title(column)), min(max(pieces, default=1), _NARROWEST_NAME))


def _measure_parts(inside: Sequence[Cell]) -> int:
    return max(measure_name(each.text)[1] for each in inside if isinstance(each, Name))


def _measure_words(column: Column, inside: Sequence[Cell]) -> int:
    texts = [write_title(column), *map(write_cell, inside)]
    return max((cell_len(word) for text in texts for word in text.split()), default=1)
