"""Medians and percentiles of a stream: exact up to a million values, then to a stated error.

Beyond `EXACT` values a stream is counted in bins, 2^10 to each power of two, positive and negative
apart. As in DDSketch (Masson, Rim and Lee 2019) merging adds counts, so that every split gives the
same sketch, and an order statistic is within `relative_error` of the true one. A bin is the leading
bits of the float64 itself: there is no logarithm to compute and no range to choose.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from torch import Tensor, float64, from_numpy

Numbers = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

EXACT = 1_000_000
"""How many values are kept before they are counted in bins."""
_PARTS = 64
_MANTISSA_BITS = 10
_DROPPED_BITS = 52 - _MANTISSA_BITS
_INFINITY = np.float64(np.inf).view(np.int64) >> _DROPPED_BITS


@dataclass(frozen=True, slots=True)
class Values:
    """A stream of numbers, all of them until there are too many."""

    parts: tuple[tuple[Tensor, Tensor | None], ...] = ()
    """Numbers (N,) as they came, on their device, and which of them count."""
    bins: Bins | None = None

    def update(self, values: Tensor, where: Tensor | None = None) -> Values:
        """With more numbers, of any shape: those for which `where`, of that shape, holds."""
        flat = values.detach().reshape(-1).to(float64)
        part = (flat, None if where is None else where.reshape(-1))
        return Values((*self.parts, part), self.bins)._settled()

    def merge(self, other: Values) -> Values:
        """Of both streams."""
        mine, theirs = self.bins, other.bins
        bins = mine.merge(theirs) if mine is not None and theirs is not None else mine or theirs
        return Values(self.parts + other.parts, bins)._settled()

    @property
    def relative_error(self) -> float:
        """How far an order statistic may be off, relative to it; 0 while all numbers are kept."""
        return 0.0 if self.bins is None else 2.0 ** -(_MANTISSA_BITS + 1)

    def quantiles(self, *shares: float) -> tuple[float, ...]:
        """Below which numbers each share (0 to 1) of the stream lies, interpolated as by numpy.

        NaN of nothing, and where one of the numbers is NaN.
        """
        kept = self._kept()
        if self.bins is not None:
            bins = self.bins.merge(Bins.of(kept)) if len(kept) else self.bins
            if bins.undefined:
                return (math.nan,) * len(shares)
            return _interpolated(bins.order_statistic, bins.size, shares)
        ordered = np.sort(kept)
        if len(ordered) == 0 or np.isnan(ordered[-1]):
            return (math.nan,) * len(shares)
        return _interpolated(lambda rank: float(ordered[rank]), len(ordered), shares)

    def _settled(self) -> Values:
        """The same stream in fewer pieces, counted in bins if it is too long."""
        size = sum(len(values) for values, _ in self.parts)
        if len(self.parts) <= _PARTS and size <= EXACT:
            return self
        kept = self._kept()
        if self.bins is None and len(kept) <= EXACT:
            return Values(((from_numpy(kept), None),))
        bins = Bins.of(kept)
        return Values((), bins if self.bins is None else self.bins.merge(bins))

    def _kept(self) -> Numbers:
        chosen = [v if where is None else v[where] for v, where in self.parts]
        return np.concatenate([c.cpu().numpy() for c in chosen]) if chosen else np.empty(0)


@dataclass(frozen=True, slots=True)
class Bins:
    """How many numbers begin with which bits, in ascending order; the ends are kept exactly."""

    keys: Integers
    counts: Integers
    low: float
    high: float
    undefined: int
    """How many are NaN, and so in no bin."""

    @classmethod
    def of(cls, values: Numbers) -> Bins:
        """Of some numbers."""
        defined = values[~np.isnan(values)] + 0.0  # -0 becomes 0
        magnitude = np.abs(defined).view(np.int64) >> _DROPPED_BITS
        keys, counts = np.unique(
            np.where(defined < 0, -1 - magnitude, magnitude), return_counts=True
        )
        ends = (defined.min(), defined.max()) if len(defined) else (math.inf, -math.inf)
        return cls(keys, counts, float(ends[0]), float(ends[1]), len(values) - len(defined))

    def merge(self, other: Bins) -> Bins:
        """Of both."""
        keys, place = np.unique(np.concatenate([self.keys, other.keys]), return_inverse=True)
        counts = np.zeros(len(keys), dtype=np.int64)
        np.add.at(counts, place, np.concatenate([self.counts, other.counts]))
        return Bins(
            keys,
            counts,
            min(self.low, other.low),
            max(self.high, other.high),
            self.undefined + other.undefined,
        )

    @property
    def size(self) -> int:
        """How many numbers there are."""
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


def _interpolated(
    order_statistic: Callable[[int], float], size: int, shares: tuple[float, ...]
) -> tuple[float, ...]:
    """Between the two order statistics around rank share * (size - 1)."""

    def at(share: float) -> float:
        rank = share * (size - 1)
        below = order_statistic(math.floor(rank))
        above = order_statistic(math.ceil(rank))
        if below == above:  # also where both are infinite
            return below
        part = rank - math.floor(rank)
        return (1 - part) * below + part * above

    return tuple(at(share) for share in shares)
