"""Where the outcome of a rule changes as one of its thresholds is moved.

A rule reports a site up to some setting of its threshold and says nothing beyond. That setting is
the value of the site that is nearest to being reported, so what a threshold is compared with is
read no otherwise than by the rule.
"""

from __future__ import annotations

import math
import struct
import sys
from collections.abc import Callable

from normdiag.rules.thresholds import Threshold


def list_range_ends(threshold: Threshold) -> tuple[float, float]:
    """Return the settings at which most and least is reported.

    The second is one step outside of the valid range: some rules report a value at the threshold.
    """
    if threshold.is_lower:
        return min(threshold.high, sys.float_info.max), math.nextafter(threshold.low, -math.inf)
    return threshold.low, math.nextafter(threshold.high, math.inf)


def bisect_floats(
    holds: Callable[[float], bool], inside: float, outside: float, gap: int = 1
) -> float:
    """Return where `holds` ends between `inside`, where it does, and `outside`, to `gap` floats."""
    one, other = _count_floats(inside), _count_floats(outside)
    while abs(one - other) > gap:
        middle = (one + other) // 2
        one, other = (middle, other) if holds(_float_at(middle)) else (one, middle)
    return (_float_at(one) + _float_at(other)) / 2 + 0.0


def _count_floats(value: float) -> int:
    """The number of floats from 0 to `value`, with its sign."""
    (bits,) = struct.unpack("<q", struct.pack("<d", abs(value)))
    return int(math.copysign(1, value)) * int(bits)


def _float_at(count: int) -> float:
    (value,) = struct.unpack("<d", struct.pack("<q", abs(count)))
    return math.copysign(float(value), count)
