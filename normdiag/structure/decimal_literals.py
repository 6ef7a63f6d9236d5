"""Decimal literals of constants that the graph holds rounded to float32."""

from __future__ import annotations

import struct

_DIGITS = 4
"""A decimal with more digits is not a rounded literal, such as the epsilon of float32."""


def shortest_decimal(value: float) -> float:
    """Return the shortest decimal that float32 rounds to `value`: 1e-05 for 9.999999747378752e-06.

    `value` itself where no decimal of up to 4 digits rounds to it.
    """
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
