"""Heat maps of a trace: every cell, and every number and shade that is drawn of it."""

from __future__ import annotations

import io
import math
import re
from collections.abc import Iterator

from rich.console import Console

from normdiag.render.elements import Heading, HeatMap, Page
from normdiag.render.text.heat_maps import draw_heat_map
from tests.sentences.claims import Json
from tests.sentences.report_values import ROOT
from tests.sentences.shown_numbers import agrees_with

_SHADES = "·░▒▓█"
_LEGEND = re.compile(
    rf"from: {' '.join(f'{shade} (.+?)' for shade in _SHADES)}( ! not finite)? "
    r"\((log|linear) scale\)"
)
_NOT_FINITE = "!"
Columns = list[tuple[str, list[str]]]


def iterate_heat_maps(page: Page) -> Iterator[tuple[int, HeatMap]]:
    """Yield the sequence and the map of each."""
    sequence = -1
    for element in page.elements:
        if isinstance(element, Heading) and element.title.startswith("Sequence "):
            sequence = int(element.title.split()[1])
        elif isinstance(element, HeatMap):
            yield sequence, element


def check_heat_map(heat_map: HeatMap, trace: Json, report: Json) -> None:
    """Check columns and cells.

    Raises:
        AssertionError: a cell that is not the report's, or a title that says something else.
    """
    quantity, columns, extreme = _read_title(heat_map.title, report)
    values = trace[quantity]
    length = len(trace["tokens"])
    measured = []
    for title, ids in columns:
        rows = [values[id] for id in ids if len(values.get(id, ())) == length]
        if rows:
            measured.append((title, rows))
    assert heat_map.extreme == extreme
    assert heat_map.columns == tuple(title for title, _ in measured)
    assert [label.split()[0] for label in heat_map.rows] == [str(k) for k in range(length)]
    for place, (label, cells) in enumerate(zip(heat_map.rows, heat_map.cells, strict=True)):
        assert label == f"{place:>4} {trace['tokens'][place].replace(' ', '␣')}"
        expected = [pick_extreme([row[place] for row in rows], extreme) for _, rows in measured]
        assert all(map(_is_same, cells, expected)), (heat_map.title, label, cells, expected)


def check_drawing(heat_map: HeatMap, width: int) -> None:
    """Check the numbers and shades of every drawn row against the cells.

    Raises:
        AssertionError: what is drawn is not what the map holds.
    """
    check_lines(draw_lines(heat_map, width), heat_map)


def draw_lines(heat_map: HeatMap, width: int) -> list[str]:
    """Return a map as it stands on a screen of `width` columns."""
    buffer = io.StringIO()
    console = Console(file=buffer, width=width, color_system=None)
    for part in draw_heat_map(heat_map, width):
        console.print(part)
    return [line.rstrip() for line in buffer.getvalue().splitlines()]


def check_lines(lines: list[str], heat_map: HeatMap) -> None:
    """Check the lines of one map that is drawn in one panel.

    Raises:
        AssertionError: what is drawn is not what the map holds.
    """
    text = " ".join(" ".join(lines).split())
    legend = _LEGEND.search(text)
    assert legend is not None, lines
    scale = dict(zip(_SHADES, legend.groups(), strict=False))
    merged = re.search(r"each column stands for (\d+) neighbours(?:, the last for (\d+))?", text)
    size = int(merged[1]) if merged else 1
    if merged:
        rest = len(heat_map.columns) % size
        assert merged[2] == (str(rest) if rest else None)
    shown = [re.search(rf"([{_SHADES}{_NOT_FINITE}]+) +(\S+)$", line) for line in lines]
    rows = [match for match in shown if match and "from: " not in match.string]
    assert len(rows) == len(heat_map.shown_rows)
    for place, match in zip(heat_map.shown_rows, rows, strict=True):
        cells = heat_map.cells[place]
        assert agrees_with(match[2], pick_extreme(list(cells), heat_map.extreme)), match.string
        columns = [
            pick_extreme(list(cells[start : start + size]), heat_map.extreme)
            for start in range(0, len(cells), size)
        ]
        drawn = match[1][-_drawn_length(match[1], len(columns)) :]
        cell_width = len(drawn) // len(columns)
        assert cell_width >= 1 and drawn == "".join(
            drawn[k * cell_width] * cell_width for k in range(len(columns))
        )
        for k, value in enumerate(columns):
            _check_shade(drawn[k * cell_width], value, scale)


def pick_extreme(values: list[float], extreme: str) -> float:
    """The value that stands for several; one that is not a number comes first."""
    if any(math.isnan(value) for value in values):
        return math.nan
    return max(values) if extreme == "largest" else min(values)


def _drawn_length(run: str, columns: int) -> int:
    return len(run) // columns * columns


def _check_shade(shade: str, value: float, scale: dict[str, str]) -> None:
    if shade == _NOT_FINITE:
        assert not math.isfinite(value)
        return
    assert math.isfinite(value)
    start, end = _read_range(shade, scale)
    assert start <= value <= end or (value == 0 and "0 and" in scale[shade]), (shade, value, scale)


def _read_range(shade: str, scale: dict[str, str]) -> tuple[float, float]:
    """From which value to which a shade stands, by two digits."""
    place = _SHADES.index(shade)
    start = _read_number(scale[shade]) * 0.94
    later = _SHADES[place + 1 :]
    return start, _read_number(scale[later[0]]) * 1.06 if later else math.inf


def _read_number(number: str) -> float:
    return float(number.removeprefix("0 and ").replace(",", ""))


def _read_title(title: str, report: Json) -> tuple[str, Columns, str]:
    for start, quantity, extreme in (
        ("Stream norm after each layer of ", "out_norm", "largest"),
        ("Update ratio, largest of each layer of ", "update_ratio", "largest"),
        ("Variance of norm inputs, smallest of each layer of ", "input_var", "smallest"),
    ):
        if title.startswith(start):
            name = title.removeprefix(start)
            stack = "" if name == ROOT else name
            if quantity == "input_var":
                return quantity, _norm_columns(report, stack), extreme
            layers = _add_columns(report, stack)
            last = [(layer, ids[-1:]) for layer, ids in layers]
            return quantity, last if quantity == "out_norm" else layers, extreme
    raise AssertionError(f"no check knows the map {title!r}")


def _add_columns(report: Json, stack: str) -> Columns:
    adds = [each for each in report["architecture"]["residual_adds"] if each["stack"] == stack]
    layers: dict[str, list[str]] = {}
    for add in sorted(adds, key=lambda each: each["depth"]):
        layers.setdefault(str(add["layer"]), []).append(add["id"])
    return list(layers.items())


def _norm_columns(report: Json, stack: str) -> Columns:
    layers: dict[str, list[str]] = {}
    for norm in report["architecture"]["norms"]:
        if norm["stack"] == stack:
            outside = "in" if norm["role"] == "embedding" else "out"
            layer = outside if norm["layer"] is None else str(norm["layer"])
            layers.setdefault(layer, []).append(norm["id"])
    return list(layers.items())


def _is_same(a: float, b: float) -> bool:
    return a == b or (math.isnan(a) and math.isnan(b))
