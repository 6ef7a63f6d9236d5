"""Tables in characters."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from rich.console import RenderableType
from rich.text import Text

from normdiag.render.elements import Bar, Gap, Name, Row, Table
from normdiag.render.escape import escape_in_full
from normdiag.render.glyphs import draw_bar
from normdiag.render.text.column_widths import (
    choose_columns,
    measure_columns,
    split_gap,
    write_cell,
    write_title,
)
from normdiag.render.text.folded_names import fold_name
from normdiag.render.text.layout import STYLES, make_grid, make_paragraph


def draw_table(table: Table, width: int) -> Iterator[RenderableType]:
    """Yield what the columns mean, then the table."""
    table = choose_columns(table, width)
    meaning = table.describe_columns()
    if meaning:
        yield make_paragraph(escape_in_full(meaning), STYLES["quiet"])
    widths = measure_columns(table, width)
    yield make_grid(
        [
            (write_title(column), column.align, wide)
            for column, wide in zip(table.columns, widths, strict=True)
        ],
        _draw_rows(table, widths),
    )


def _draw_rows(table: Table, widths: Sequence[int | None]) -> Iterator[list[Text]]:
    for before, row in pairwise([None, *table.rows]):
        if isinstance(row, Gap):
            yield [Text(part, STYLES["quiet"]) for part in split_gap(row, table.columns[0])]
        elif row is not None:
            yield _draw_row(table, row, before if isinstance(before, Row) else None, widths)


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
            cells.append(Text(write_cell(cell), STYLES[row.style]))
    return cells
