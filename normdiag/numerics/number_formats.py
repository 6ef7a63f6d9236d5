"""Number formats of half and quarter precision: how large, how small, how fine, and what is lost.

A format of e exponent and m fraction bits has the bias b = 2^(e-1) - 1. Its numbers are
+-(1 + f 2^-m) 2^p for 1-b <= p <= b, and the subnormal +-f 2^(1-b-m) below. "fn" formats have no
infinity: the largest exponent holds numbers too, but for its last fraction, which is NaN.

Sources: IEEE 754-2019 (float16); bfloat16 as the upper half of a float32; Micikevicius et al.
2022, arXiv 2209.05433, table 1 (both formats of 8 bits).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch


@dataclass(frozen=True, slots=True)
class NumberFormat:
    """One format. What is computed with it is computed in float64, of any device."""

    name: str
    """As torch calls the dtype."""
    exponent_bits: int
    fraction_bits: int
    has_infinity: bool = True

    @property
    def _bias(self) -> int:
        return (1 << self.exponent_bits - 1) - 1

    @property
    def largest(self) -> float:
        """The largest finite value."""
        if self.has_infinity:
            return math.ldexp(2.0 - math.ldexp(1.0, -self.fraction_bits), self._bias)
        return math.ldexp(2.0 - math.ldexp(2.0, -self.fraction_bits), self._bias + 1)

    @property
    def smallest_normal(self) -> float:
        """The smallest value with a full fraction."""
        return math.ldexp(1.0, 1 - self._bias)

    @property
    def smallest(self) -> float:
        """The smallest value above zero: half of it, and all below, round to 0."""
        return math.ldexp(1.0, 1 - self._bias - self.fraction_bits)

    def ulp(self, x: torch.Tensor) -> torch.Tensor:
        """How far it is from |x| to the next larger number of the format."""
        exponent = torch.frexp(x.double()).exponent - 1
        lowest = 1 - self._bias
        exponent = torch.where(x == 0, lowest, exponent).clamp(min=lowest)
        return torch.ldexp(torch.ones_like(x, dtype=torch.float64), exponent - self.fraction_bits)

    def rounded(self, x: torch.Tensor) -> torch.Tensor:
        """`x` in this format, half to even, as float64. Beyond the largest: infinity, or NaN where
        there is none (a cast may saturate instead, which is the kernel's choice)."""
        ulp = self.ulp(x)
        near = torch.round(x.double() / ulp) * ulp
        beyond = math.inf if self.has_infinity else math.nan
        is_within = torch.isfinite(x) & (near.abs() <= self.largest)
        return torch.where(is_within, near, x.double() * beyond)

    def swallowed(self, x: torch.Tensor, u: torch.Tensor) -> tuple[int, int]:
        """Of how many non-zero elements of u nothing is left: x + u = x in this format; and how
        many there are. Where x itself overflows it counts as neither."""
        skip = self.rounded(x)
        counted = (u != 0) & torch.isfinite(skip)
        same = self.rounded(skip + self.rounded(u)) == skip
        return int((same & counted).sum()), int(counted.sum())


FORMATS = (
    NumberFormat("float16", 5, 10),
    NumberFormat("bfloat16", 8, 7),
    NumberFormat("float8_e4m3fn", 4, 3, has_infinity=False),
    NumberFormat("float8_e5m2", 5, 2),
)
