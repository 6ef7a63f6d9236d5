"""Heat maps in characters: tokens down the side, layers across, darker for larger."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from rich.cells import cell_len, set_cell_size
from rich.console import RenderableType
from rich.text import Text

from normdiag.number_text import format_number
from normdiag.render.axis import Axis
from normdiag.render.elements import HeatMap, pick_extreme
from normdiag.render.escape import escape_text
from normdiag.render.glyphs import describe_shades, draw_shade, find_shade_level
from normdiag.render.text.layout import INDENT, STYLES, make_paragraph, make_row

_COLOURS = ("", "cyan", "blue", "magenta", "red")
_LABEL_WIDTH = 18
_NUMBER_WIDTH = 8
_WIDEST_CELL = 3


def draw_heat_map(heat_map: HeatMap, width: int) -> Iterator[RenderableType]:
    """Yield the title, for each panel the ruler and the rows, and the legend."""
    axis = Axis.fit_values(value for row in heat_map.cells for value in row)
    room = max(width - INDENT - _LABEL_WIDTH - _NUMBER_WIDTH - 2, 1)
    yield make_paragraph(Text(f"\n{escape_text(heat_map.title)}", "bold"))
    if heat_map.merges_columns:
        yield from _draw_panel(heat_map.merge_columns(room), axis, room)
        size = heat_map.count_merged(room)
        if size > 1:
            rest = len(heat_map.columns) % size
            last = f", the last for {rest}" if rest else ""
            note = f"     each column stands for {size} neighbours{last}: the {heat_map.extreme}"
            yield make_paragraph(note, STYLES["quiet"])
    else:
        for panel in _split_panels(heat_map, room):
            yield from _draw_panel(panel, axis, room)
    legend = f"     from: {describe_shades(axis)}  ({'log' if axis.is_log else 'linear'} scale)"
    yield make_paragraph(legend, STYLES["quiet"])


def _draw_panel(panel: HeatMap, axis: Axis, room: int) -> Iterator[RenderableType]:
    cell_width = min(max(room // len(panel.columns), 1), _WIDEST_CELL)
    ruler = f"{_draw_ruler(panel.columns, cell_width):{cell_width * len(panel.columns)}}"
    header = f"{'':{_LABEL_WIDTH}} {ruler} {panel.extreme:>{_NUMBER_WIDTH}}"
    yield make_row(Text(header, STYLES["quiet"]))
    previous = -1
    for index in panel.shown_rows:
        if index > previous + 1:
            yield make_paragraph(Text(f"{'…':>4} {index - previous - 1} more", STYLES["quiet"]))
        previous = index
        yield make_row(_draw_row(panel, index, axis, cell_width))


def _draw_row(panel: HeatMap, index: int, axis: Axis, cell_width: int) -> Text:
    line = Text(set_cell_size(_shorten_label(escape_text(panel.rows[index])), _LABEL_WIDTH + 1))
    for value in panel.cells[index]:
        level = find_shade_level(axis, value)
        colour = "bold red" if level is None else _COLOURS[level]
        line.append(draw_shade(axis, value) * cell_width, colour)
    return line.append(
        f" {format_number(pick_extreme(panel.cells[index], panel.extreme)):>{_NUMBER_WIDTH}}"
    )


def _shorten_label(label: str) -> str:
    if cell_len(label) <= _LABEL_WIDTH:
        return label
    return set_cell_size(label, _LABEL_WIDTH - 1) + "…"


def _split_panels(heat_map: HeatMap, room: int) -> Iterator[HeatMap]:
    for start in range(0, len(heat_map.columns), room):
        chosen = slice(start, start + room)
        yield replace(
            heat_map,
            columns=heat_map.columns[chosen],
            cells=tuple(row[chosen] for row in heat_map.cells),
        )


def _draw_ruler(columns: Sequence[str], cell_width: int) -> str:
    """Return the names of the columns that have room for it, each over its first cell."""
    ruler = ""
    for index, column in enumerate(columns):
        is_free = not ruler or index * cell_width > len(ruler)
        if is_free and index * cell_width + len(column) <= len(columns) * cell_width:
            ruler = f"{ruler:{index * cell_width}}{column}"
    return ruler
