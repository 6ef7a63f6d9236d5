"""Tables in characters: how wide each column is, where names are broken, how long bars are."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

from rich.cells import cell_len
from rich.console import RenderableType
from rich.text import Text

from normdiag.render.elements import Bar, Cell, Column, Gap, Name, Number, Row, Table
from normdiag.render.escape import escape_in_full, escape_text
from normdiag.render.glyphs import draw_bar
from normdiag.render.text.layout import GAP, INDENT, STYLES, make_grid, make_paragraph

_NARROWEST_NAME = 12
_NAME_BESIDE_BAR = 18
"""Names are not broken to less than this for the sake of a bar."""
_SMALLEST_BAR = 4
_FAIR_BAR = 12


def draw_table(table: Table, width: int) -> Iterator[RenderableType]:
    """Yield what the columns mean, then the table."""
    meaning = table.describe_columns()
    if meaning:
        yield make_paragraph(escape_in_full(meaning), STYLES["quiet"])
    widths = _measure_columns(table, width)
    yield make_grid(
        [
            (escape_text(_write_title(column)), column.align, wide)
            for column, wide in zip(table.columns, widths, strict=True)
        ],
        _draw_rows(table, widths),
    )


def _list_rows(table: Table) -> list[Row]:
    return [row for row in table.rows if isinstance(row, Row)]


def _write_title(column: Column) -> str:
    return f"{column.title} [{column.unit}]" if column.unit else column.title


def _measure_columns(table: Table, width: int) -> list[int | None]:
    """Return the width of each column; None where rich may narrow it."""
    cells = [[row.cells[place] for row in _list_rows(table)] for place in range(len(table.columns))]
    natural = [
        max(cell_len(_write_title(column)), *map(_measure_cell, inside), 1)
        for column, inside in zip(table.columns, cells, strict=True)
    ]
    for gap in (row for row in table.rows if isinstance(row, Gap)):
        for place, part in enumerate(_split_gap(gap, table.columns[0])):
            natural[place] = max(natural[place], cell_len(part))
    names = _find_cells(cells, Name)
    bars = _find_cells(cells, Bar)
    fixed = [wide for place, wide in enumerate(natural) if place not in {*names, *bars}]
    room = width - INDENT - GAP * (len(natural) - 1) - sum(fixed)
    widths: list[int | None] = list(natural)
    for place in names:
        if bars:
            most = max(_NAME_BESIDE_BAR, room - _FAIR_BAR)
        else:
            most = max(room // len(names), _NARROWEST_NAME)
        widths[place] = min(natural[place], most)
        room -= min(natural[place], most)
    for place in bars:
        widths[place] = max(room, _SMALLEST_BAR)
    if room < 0 and not bars:  # words can be folded, numbers and names cannot
        for place, column in enumerate(table.columns):
            if column.align == "left" and place not in names:
                widths[place] = None
    return widths


def _find_cells(cells: Sequence[Sequence[Cell]], kind: type) -> list[int]:
    """Return the columns that hold cells of one kind."""
    return [k for k, inside in enumerate(cells) if any(isinstance(c, kind) for c in inside)]


def _measure_cell(cell: Cell) -> int:
    return 0 if isinstance(cell, Bar) else cell_len(_write_cell(cell))


def _write_cell(cell: Cell) -> str:
    if isinstance(cell, Number):
        return cell.written_value
    if isinstance(cell, Bar):
        return ""
    return escape_text(cell.text if isinstance(cell, Name) else cell)


def _draw_rows(table: Table, widths: Sequence[int | None]) -> Iterator[list[Text]]:
    for before, row in pairwise([None, *table.rows]):
        if isinstance(row, Gap):
            yield [Text(part, STYLES["quiet"]) for part in _split_gap(row, table.columns[0])]
        elif row is not None:
            yield _draw_row(table, row, before if isinstance(before, Row) else None, widths)


def _split_gap(gap: Gap, first: Column) -> tuple[str, ...]:
    """Return the text of a gap, beside the mark where the first column is one of numbers."""
    text = escape_text(gap.text)
    return ("…", text) if first.align == "right" else (f"… {text}",)


def _draw_row(
    table: Table, row: Row, before: Row | None, widths: Sequence[int | None]
) -> list[Text]:
    cells = []
    for place, (column, cell) in enumerate(zip(table.columns, row.cells, strict=True)):
        is_repeated = column.is_group and before is not None and before.cells[place] == cell
        if is_repeated:
            cells.append(Text(""))
        elif isinstance(cell, Bar):
            cells.append(Text(draw_bar(cell.axis, cell.value, widths[place] or 1), "cyan"))
        elif isinstance(cell, Name):
            cells.append(Text(fold_name(cell.text, widths[place] or 1), STYLES[row.style]))
        else:
            cells.append(Text(_write_cell(cell), STYLES[row.style]))
    return cells


def fold_name(name: str, width: int) -> str:
    """Return `name`, escaped, broken into lines of `width` after dots, slashes, colons or, in what
    is longer than a line, underscores."""
    lines = [""]
    for part in re.findall(r"[^./:]+[./:]*|[./:]+", escape_text(name)):
        pieces = [part] if cell_len(part) <= width else re.findall(r"[^_]+_*|_+", part)
        for piece in pieces:
            if lines[-1] and cell_len(lines[-1] + piece) > width:
                lines.append("")
            lines[-1] += piece
    return "\n".join(lines)
