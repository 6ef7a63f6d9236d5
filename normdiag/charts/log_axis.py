"""The range of a logarithmic axis and its ticks.

Vega's own range ends at powers of ten and its ticks come in nines to a decade: curves within one
decade would be flat, and their grid a hatching.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

_ROOM = 1.25
"""Factor between the outermost value and the end of the axis."""
_MOST_TICKS = 7


def choose_domain(values: Iterable[float]) -> tuple[float, float]:
    """Return the ends of an axis on which all of `values`, finite and above 0, have room."""
    values = list(values)
    return min(values) / _ROOM, min(max(values) * _ROOM, 1.7e308)


def choose_ticks(low: float, high: float) -> list[float] | None:
    """Return ticks at powers of ten, at 1, 2 and 5 within few decades, at even steps within one.

    None where the ends are too close: Vega's own.
    """
    start, end = math.floor(math.log10(low)), math.ceil(math.log10(high))
    decades = range(max(start, -307), min(end, 307) + 1)
    if math.log10(high) - math.log10(low) <= 2:
        ticks = [digit * 10.0**power for power in decades for digit in (1, 2, 5)]
    else:
        step = -(-len(decades) // _MOST_TICKS)
        ticks = [10.0**power for power in decades if power % step == 0]
    ticks = [tick for tick in ticks if low <= tick <= high]
    if len(ticks) < 3 and high <= 10 * low:
        ticks = _space_evenly(low, high)
    return ticks if len(ticks) > 1 else None


def _space_evenly(low: float, high: float) -> list[float]:
    """Return multiples of the smallest step of 1, 2 or 5 that gives few enough ticks."""
    power = math.floor(math.log10((high - low) / _MOST_TICKS)) if high > low else -400
    if not -300 < power < 300:
        return []
    for step, exponent in ((1, power), (2, power), (5, power), (1, power + 1), (2, power + 1)):
        unit = step * 10.0**exponent
        first, last = math.ceil(low / unit), math.floor(high / unit)
        if last - first < _MOST_TICKS:
            ticks = [float(f"{place * unit:.12g}") for place in range(first, last + 1)]
            return [tick for tick in ticks if low <= tick <= high]
    return []
