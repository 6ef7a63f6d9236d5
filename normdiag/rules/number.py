"""One way to write a number in a message."""

from __future__ import annotations

import math


def number(value: float) -> str:
    """`value` in four significant digits, without an exponent where that stays readable."""
    if math.isfinite(value) and 0.001 <= abs(value) < 1e6:
        digits = max(0, 3 - math.floor(math.log10(abs(value))))
        return f"{value:.{digits}f}".rstrip("0").rstrip(".") if digits else f"{value:.0f}"
    return f"{value:.4g}"


def count(n: int, noun: str) -> str:
    """ "1 norm", "3 norms"."""
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"
