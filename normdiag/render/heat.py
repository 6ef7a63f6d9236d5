"""A heat table: tokens down the side, layers across, darker for larger; reads without colour."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from rich.cells import cell_len, set_cell_size
from rich.console import RenderableType
from rich.text import Text

from normdiag.render.axis import Axis
from normdiag.render.page import INDENT, QUIET, Page, prose
from normdiag.render.units import number

Worst = Callable[[Sequence[float]], float]

_COLOURS = ("", "cyan", "blue", "magenta", "red")
_LABEL = 18
_NUMBER = 8
_WIDEST_CELL = 3
_FOLD_FROM = 24
_ENDS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Heat:
    """One quantity over tokens and columns; `worst` (max or min) folds several cells into one."""

    rows: tuple[str, ...]
    """What each row is called; visible text."""
    columns: tuple[str, ...]
    cells: tuple[tuple[float, ...], ...]
    """One tuple per row, of as many values as there are columns."""
    worst: Worst


def draw(heat: Heat, page: Page) -> Iterator[RenderableType]:
    """Yield the ruler, the rows and the legend; long and wide tables are folded, and say so."""
    axis = Axis.over(value for row in heat.cells for value in row)
    across = page.width - INDENT - _LABEL - _NUMBER - 2
    for part in _panels(heat, across) if page.all_rows else [_binned(heat, across)]:
        wide = min(max(across // len(part.columns), 1), _WIDEST_CELL)
        title = "largest" if heat.worst is max else "smallest"
        layers = 1 if page.all_rows else _bin_size(heat, across)
        if layers > 1:
            yield prose(f"     each column is {layers} layers, the {title} of them", QUIET)
        ruler = f"{_ruler(part.columns, wide):{wide * len(part.columns)}}"
        yield prose(Text(f"{'':{_LABEL}} {ruler} {title:>{_NUMBER}}", QUIET))
        yield from (prose(line) for line in _lines(part, axis, wide, page))
    yield prose(f"     from: {axis.legend()}  ({'log' if axis.log else 'linear'} scale)", QUIET)


def _lines(heat: Heat, axis: Axis, wide: int, page: Page) -> Iterator[Text]:
    previous = -1
    for place in _shown_rows(heat, page):
        if place > previous + 1:
            yield Text(f"{'…':>4} {place - previous - 1} more", QUIET)
        previous = place
        line = Text(set_cell_size(_cut(heat.rows[place]), _LABEL + 1))
        for value in heat.cells[place]:
            level = axis.level(value)
            line.append(axis.shade(value) * wide, "bold red" if level is None else _COLOURS[level])
        yield line.append(f" {number(heat.worst(heat.cells[place])):>{_NUMBER}}")


def _cut(label: str) -> str:
    return label if cell_len(label) <= _LABEL else set_cell_size(label, _LABEL - 1) + "…"


def _shown_rows(heat: Heat, page: Page) -> list[int]:
    places = list(range(len(heat.rows)))
    if page.all_rows or len(places) <= _FOLD_FROM:
        return places
    by_worst = sorted(
        places, key=lambda place: heat.worst(heat.cells[place]), reverse=heat.worst is max
    )
    return sorted({*places[:_ENDS], *places[-_ENDS:], *by_worst[:_ENDS]})


def _panels(heat: Heat, across: int) -> Iterator[Heat]:
    for start in range(0, len(heat.columns), across):
        chosen = slice(start, start + across)
        yield Heat(
            rows=heat.rows,
            columns=heat.columns[chosen],
            cells=tuple(row[chosen] for row in heat.cells),
            worst=heat.worst,
        )


def _binned(heat: Heat, across: int) -> Heat:
    size = _bin_size(heat, across)
    starts = range(0, len(heat.columns), size)
    return Heat(
        rows=heat.rows,
        columns=tuple(heat.columns[start] for start in starts),
        cells=tuple(
            tuple(heat.worst(row[start : start + size]) for start in starts) for row in heat.cells
        ),
        worst=heat.worst,
    )


def _bin_size(heat: Heat, across: int) -> int:
    return -(-len(heat.columns) // across)


def _ruler(columns: Sequence[str], wide: int) -> str:
    """Return the names of the columns that have room for it, each over its first cell."""
    ruler = ""
    for place, column in enumerate(columns):
        free = not ruler or place * wide > len(ruler)
        if free and place * wide + len(column) <= len(columns) * wide:
            ruler = f"{ruler:{place * wide}}{column}"
    return ruler
