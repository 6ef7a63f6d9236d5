"""Medians and percentiles of a stream of numbers in bounded memory.

Up to `EXACT` numbers are kept. Beyond that they are counted in bins, 2^7 to each power of two,
positive and negative apart. As in DDSketch (Masson, Rim and Lee 2019) merging adds counts, so that
every partition of the stream gives the same sketch. A bin is the leading bits of the float64
itself: there is no logarithm to compute and no range to choose.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

EXACT = 4096
"""How many numbers are kept before they are counted in bins."""
_PARTS = 64
_MANTISSA_BITS = 7
_DROPPED_BITS = 52 - _MANTISSA_BITS
_INFINITY = np.float64(np.inf).view(np.int64) >> _DROPPED_BITS

RELATIVE_ERROR = 2.0 ** -(_MANTISSA_BITS + 1)
"""How far an order statistic of more than `EXACT` numbers may be off, relative to it: 0.39 %."""


@dataclass(slots=True)
class QuantileSketch:
    """Quantiles of a stream: exact up to `EXACT` numbers, then from bins.

    The bins are 0.39 % to 0.78 % wide, so that every order statistic is within `RELATIVE_ERROR` of
    the true one; smallest and largest are exact. The state is at most `EXACT` numbers and one count
    for each bin that is not empty.
    """

    bins: BinCounts | None = None
    """None up to `EXACT` numbers."""
    parts: list[Numbers] = field(default_factory=list)
    """Numbers that are in no bin yet, at most `EXACT` of them."""

    def update(self, numbers: Numbers) -> None:
        """Add numbers (N,)."""
        if numbers.size:
            self.parts.append(np.array(numbers, dtype=np.float64))
            self._limit_parts()

    def merge(self, other: QuantileSketch) -> None:
        """Add the numbers of `other`."""
        self.parts += other.parts
        if other.bins is not None:
            self._add_bins(other.bins)
        self._limit_parts()

    def compute(self, *shares: float) -> tuple[float, ...]:
        """Below which numbers each share (0 to 1) of the stream lies, interpolated as by numpy.

        NaN of nothing, and where one of the numbers is NaN.
        """
        numbers = np.sort(self._join_parts())
        if self.bins is not None:
            bins = self.bins.add_counts(BinCounts.from_numbers(numbers))
            if bins.nan_count:
                return (math.nan,) * len(shares)
            return _interpolate(bins.order_statistic, bins.size, shares)
        if len(numbers) == 0 or np.isnan(numbers[-1]):
            return (math.nan,) * len(shares)
        return _interpolate(lambda rank: float(numbers[rank]), len(numbers), shares)

    def _limit_parts(self) -> None:
        """Join many parts to one; count them in bins where they are too many numbers."""
        size = sum(map(len, self.parts))
        if size > EXACT:
            self._add_bins(BinCounts.from_numbers(self._join_parts()))
            self.parts = []
        elif len(self.parts) > _PARTS:
            self.parts = [self._join_parts()]

    def _add_bins(self, bins: BinCounts) -> None:
        self.bins = bins if self.bins is None else self.bins.add_counts(bins)

    def _join_parts(self) -> Numbers:
        return np.concatenate(self.parts) if self.parts else np.empty(0)


@dataclass(frozen=True, slots=True)
class BinCounts:
    """How many numbers begin with which bits, in ascending order; the ends are kept exactly."""

    keys: Integers
    counts: Integers
    low: float
    high: float
    nan_count: int
    """How many are NaN, and so in no bin."""

    @classmethod
    def from_numbers(cls, numbers: Numbers) -> BinCounts:
        """Count `numbers` (N,) in their bins."""
        defined = numbers[~np.isnan(numbers)] + 0.0  # -0 becomes 0
        magnitude = np.abs(defined).view(np.int64) >> _DROPPED_BITS
        keys, counts = np.unique(
            np.where(defined < 0, -1 - magnitude, magnitude), return_counts=True
        )
        ends = (defined.min(), defined.max()) if len(defined) else (math.inf, -math.inf)
        return cls(keys, counts, float(ends[0]), float(ends[1]), len(numbers) - len(defined))

    def add_counts(self, other: BinCounts) -> BinCounts:
        """The counts of both together."""
        keys, place = np.unique(np.concatenate([self.keys, other.keys]), return_inverse=True)
        counts = np.zeros(len(keys), dtype=np.int64)
        np.add.at(counts, place, np.concatenate([self.counts, other.counts]))
        return BinCounts(
            keys,
            counts,
            min(self.low, other.low),
            max(self.high, other.high),
            self.nan_count + other.nan_count,
        )

    @property
    def size(self) -> int:
        """How many numbers are in the bins."""
        return int(self.counts.sum())

    def order_statistic(self, rank: int) -> float:
        """The number of that rank, 0 the smallest: the middle of its bin, but exact at the ends."""
        if rank in (0, self.size - 1):
            return self.low if rank == 0 else self.high
        key = int(self.keys[np.searchsorted(self.counts.cumsum(), rank, side="right")])
        magnitude = key if key >= 0 else -1 - key
        half = 1 << (_DROPPED_BITS - 1) if 0 < magnitude < _INFINITY else 0
        middle = float(np.int64((magnitude << _DROPPED_BITS) + half).view(np.float64))
        return math.copysign(middle, key)


def _interpolate(
    order_statistic: Callable[[int], float], size: int, shares: tuple[float, ...]
) -> tuple[float, ...]:
    """Between the two order statistics around rank share * (size - 1)."""

    def interpolate_share(share: float) -> float:
        rank = share * (size - 1)
        below = order_statistic(math.floor(rank))
        above = order_statistic(math.ceil(rank))
        if below == above:  # also where both are infinite
            return below
        part = rank - math.floor(rank)
        return (1 - part) * below + part * above

    return tuple(interpolate_share(share) for share in shares)
