"""Floating-point number formats: range, precision and size, without torch.

A format of e exponent and m fraction bits has the bias b = 2^(e-1) - 1. Its normal numbers are
±(1 + f 2^-m) 2^p for 1-b <= p <= b, its subnormal ones ±f 2^(1-b-m). "fn" formats have no
infinity: their largest exponent holds numbers too, except for the last fraction, which is NaN.

Sources: IEEE 754-2019 (float16, float32, float64); bfloat16 is the upper half of a float32;
Micikevicius et al. 2022, arXiv 2209.05433, table 1 (both formats of 8 bits).
"""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class NumberFormat:
    """One floating-point format."""

    name: str
    """The torch dtype without its prefix, such as "bfloat16"."""
    exponent_bits: int
    fraction_bits: int
    has_infinity: bool = True

    @property
    def size_bytes(self) -> int:
        """Storage of one number."""
        return (1 + self.exponent_bits + self.fraction_bits) // 8

    @property
    def max_exponent(self) -> int:
        """The bias b, the exponent of the largest normal numbers where there is an infinity."""
        return (1 << self.exponent_bits - 1) - 1

    @property
    def largest(self) -> float:
        """The largest finite value."""
        last = math.ldexp(1.0, -self.fraction_bits)
        if self.has_infinity:
            return math.ldexp(2.0 - last, self.max_exponent)
        return math.ldexp(2.0 - 2 * last, self.max_exponent + 1)

    @property
    def smallest_normal(self) -> float:
        """The smallest value with a full fraction, 2^(1-b)."""
        return math.ldexp(1.0, 1 - self.max_exponent)

    @property
    def smallest_subnormal(self) -> float:
        """The smallest value above zero: half of it, and all below, round to 0."""
        return self.smallest_normal * self.epsilon

    @property
    def epsilon(self) -> float:
        """The distance from 1 to the next larger number, 2^-m."""
        return math.ldexp(1.0, -self.fraction_bits)

    @property
    def is_coarse(self) -> bool:
        """Whether it is float16 or coarser."""
        return self.fraction_bits <= 10

    @property
    def unit_roundoff(self) -> float:
        """The largest relative error of rounding to nearest, epsilon / 2."""
        return self.epsilon / 2


NUMBER_FORMATS = {
    number_format.name: number_format
    for number_format in (
        NumberFormat("float64", 11, 52),
        NumberFormat("float32", 8, 23),
        NumberFormat("float16", 5, 10),
        NumberFormat("bfloat16", 8, 7),
        NumberFormat("float8_e4m3fn", 4, 3, has_infinity=False),
        NumberFormat("float8_e5m2", 5, 2),
    )
}
"""By name."""

LOW_PRECISION_FORMATS = tuple(f for f in NUMBER_FORMATS.values() if f.size_bytes <= 2)
"""The formats of 16 and 8 bits."""
