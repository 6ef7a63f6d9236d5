"""Tables and heat maps as GitHub's tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from normdiag.number_text import format_number
from normdiag.render.axis import Axis
from normdiag.render.elements import (
    Bar,
    Cell,
    Gap,
    HeatMap,
    Name,
    Number,
    Row,
    Table,
    pick_extreme,
)
from normdiag.render.glyphs import describe_shades, draw_bar, draw_shade
from normdiag.render.markdown.escape import escape_line, escape_words, format_code

_BAR_WIDTH = 12
_MOST_COLUMNS = 48
_MARKS = {"left": "---", "right": "--:"}


def draw_table(table: Table) -> Iterator[str]:
    """Yield the table, and below it what its columns mean."""
    titles = [f"{each.title} [{each.unit}]" if each.unit else each.title for each in table.columns]
    yield _format_row(map(escape_words, titles))
    yield f"|{'|'.join(_MARKS[column.align] for column in table.columns)}|"
    for row in table.rows:
        yield _format_row(_draw_row(row, len(table.columns)))
    meaning = table.describe_columns()
    if meaning:
        yield ""
        yield escape_line(meaning)


def draw_heat_map(heat_map: HeatMap) -> Iterator[str]:
    """Yield a row per shown token: its shades as code, and its extreme."""
    axis = Axis.fit_values(value for row in heat_map.cells for value in row)
    merged = heat_map.merge_columns(_MOST_COLUMNS)
    size = heat_map.count_merged(_MOST_COLUMNS)
    yield f"**{escape_line(heat_map.title)}**"
    yield ""
    first, last = heat_map.columns[0], heat_map.columns[-1]
    step = f", {size} in one" if size > 1 else ""
    yield _format_row(["", escape_words(f"{first} to {last}{step}"), heat_map.extreme])
    yield "|---|---|--:|"
    previous = -1
    for index in heat_map.shown_rows:
        if index > previous + 1:
            yield _format_row([f"… {index - previous - 1} more", "", ""])
        previous = index
        shades = "".join(draw_shade(axis, value) for value in merged.cells[index])
        extreme = format_number(pick_extreme(heat_map.cells[index], heat_map.extreme))
        yield _format_row([format_code(heat_map.rows[index]), format_code(shades), extreme])
    yield ""
    kind = "log" if axis.is_log else "linear"
    yield f"from: {format_code(describe_shades(axis))} ({kind} scale)"


def _draw_row(row: Row | Gap, columns: int) -> Sequence[str]:
    if isinstance(row, Gap):
        return [f"… {escape_words(row.text)}", *[""] * (columns - 1)]
    return [_draw_cell(cell, row) for cell in row.cells]


def _draw_cell(cell: Cell, row: Row) -> str:
    match cell:
        case Number():
            text = escape_words(cell.written_value)
        case Name():
            text = format_code(cell.text)
        case Bar():
            return draw_bar(cell.axis, cell.value, _BAR_WIDTH)
        case _:
            text = escape_words(cell)
    return f"**{text}**" if text and row.style in ("alarm", "caution") else text


def _format_row(cells: Iterator[str] | Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
