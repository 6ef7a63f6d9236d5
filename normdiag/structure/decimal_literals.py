"""The number that was written in the code, where the graph holds its float32 rounding."""

from __future__ import annotations

import struct

_DIGITS = 4
"""A decimal of more digits is a number of its own, such as float32's machine epsilon."""


def shortest_decimal(value: float) -> float:
    """1e-05 for 9.999999747378752e-06: the short decimal that float32 rounds to `value`, if any."""
    if value != _round_to_float32(value):
        return value
    for digits in range(1, _DIGITS + 1):
        decimal = float(f"{value:.{digits}g}")
        if _round_to_float32(decimal) == value:
            return decimal
    return value


def _round_to_float32(value: float) -> float:
    try:
        return float(struct.unpack("f", struct.pack("f", value))[0])
    except OverflowError:  # beyond float32
        return float("inf")
