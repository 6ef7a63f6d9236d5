"""Values on an axis as characters: bars, sparklines and shades, all readable without colour."""

from __future__ import annotations

import math
from collections.abc import Iterable

from normdiag.number_text import format_number
from normdiag.render.axis import Axis

SHADES = "·░▒▓█"
_BARS = " ▏▎▍▌▋▊▉█"
_SPARKS = "▁▂▃▄▅▆▇█"
NOT_FINITE = "!"


def draw_bar(axis: Axis, value: float, width: int) -> str:
    """Return a bar of at most `width` cells, to an eighth of a cell, never empty."""
    if not math.isfinite(value):
        return NOT_FINITE
    eighths = max(1, round(axis.relative_position(value) * width * 8))
    return "█" * (eighths // 8) + _BARS[eighths % 8].strip()


def draw_sparkline(axis: Axis, values: Iterable[float]) -> str:
    """Return one character per value, taller for larger."""
    return "".join(_pick_step(axis, value, _SPARKS) for value in values)


def find_shade_level(axis: Axis, value: float) -> int | None:
    """Return which of the shades `value` has; None where it is not finite."""
    if not math.isfinite(value):
        return None
    return min(int(axis.relative_position(value) * len(SHADES)), len(SHADES) - 1)


def draw_shade(axis: Axis, value: float) -> str:
    """Return one character, darker for larger."""
    return _pick_step(axis, value, SHADES)


def describe_shades(axis: Axis) -> str:
    """Return from which value on each shade is used."""
    starts = [format_number(axis.value_at(step / len(SHADES)), 2) for step in range(len(SHADES))]
    if axis.has_zeros:
        starts[0] = f"0 and {starts[0]}"
    return "  ".join(f"{shade} {start}" for shade, start in zip(SHADES, starts, strict=True)) + (
        f"  {NOT_FINITE} not finite" if axis.has_gaps else ""
    )


def _pick_step(axis: Axis, value: float, steps: str) -> str:
    if not math.isfinite(value):
        return NOT_FINITE
    return steps[min(int(axis.relative_position(value) * len(steps)), len(steps) - 1)]
