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
    """Return ticks at powers of ten, at 1, 2 and 5 within few decades, else None: Vega's own."""
    start, end = math.floor(math.log10(low)), math.ceil(math.log10(high))
    decades = range(max(start, -307), min(end, 307) + 1)
    if math.log10(high) - math.log10(low) <= 2:
        ticks = [digit * 10.0**power for power in decades for digit in (1, 2, 5)]
    else:
        step = -(-len(decades) // _MOST_TICKS)
        ticks = [10.0**power for power in decades if power % step == 0]
    ticks = [tick for tick in ticks if low <= tick <= high]
    return ticks if len(ticks) > 1 else None
