"""Parts of the depth in which a stream grows by one factor each, where no one law holds.

Many language models have them: GPT-2 XL grows by 1.045 per layer from layer 5 to 41, and otherwise
before and behind (Heimersheim and Turner 2023); elsewhere one write doubles the stream. The log
norms are split into runs of adds with a least-squares line in each; for each number of runs the
best split is found exactly, by dynamic programming (Bellman 1961). A further run is taken while
those so far are off by `MISFIT` and AICc falls by `MARGIN`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from normdiag.numerics.growth_law import GrowthLaw, compute_aicc

Numbers = npt.NDArray[np.float64]

MISFIT = 0.05
"""What is off by less than 5 %, as a root mean square, is described well enough."""
MARGIN = 10.0
"""More than what tells two laws apart: residuals along depth come in waves that a split follows."""
SHORTEST = 3
"""Adds that a phase has at least; the first may be shorter, since what a stream starts from is
often much smaller than the first write."""
MOST = 5
"""Phases that a stack has at most."""


@dataclass(frozen=True, slots=True)
class GrowthPhase:
    """A run of adds that grows by one factor."""

    first: int
    last: int
    """The adds where it begins and ends, that one included."""
    factor: float
    """Per add."""
    step: float | None
    """By which factor the fitted curve changes at `first`; None where the stack begins."""


def find_growth_phases(norms: Numbers, law: GrowthLaw) -> tuple[GrowthPhase, ...]:
    """The phases of norms (n,), one per add in the order of depth; none where the law does.

    Args:
        norms: positive and finite.
        law: what `growth_law.fit` says of them.
    """
    if not law.fits or law.fits[0].misfit < MISFIT:
        return ()
    y = np.log(np.asarray(norms, dtype=np.float64))
    n = len(y)
    splits = _find_best_splits(y)
    starts, square_sum = splits[0]
    for number, (next_starts, next_sum) in enumerate(splits[1:], 2):
        gain = compute_aicc(square_sum, n, 3 * (number - 1)) - compute_aicc(next_sum, n, 3 * number)
        if math.sqrt(square_sum / n) < MISFIT or not gain >= MARGIN:
            break
        starts, square_sum = next_starts, next_sum
    if len(starts) == 1 or compute_aicc(square_sum, n, 3 * len(starts)) > law.fits[0].aicc - MARGIN:
        return ()
    return _fit_phases(y, [*starts, n])


def _fit_phases(y: Numbers, ends: list[int]) -> tuple[GrowthPhase, ...]:
    phases: list[GrowthPhase] = []
    before = math.nan
    for first, end in pairwise(ends):
        slope, at_first = _fit_segment(y[first:end])
        step = math.exp(at_first - before) if phases else None
        phases.append(GrowthPhase(first, end - 1, math.exp(slope), step))
        before = at_first + slope * (end - 1 - first)
    return tuple(phases)


def _fit_segment(y: Numbers) -> tuple[float, float]:
    """Slope, and the value at the first point; one point has the slope 0."""
    if len(y) == 1:
        return 0.0, float(y[0])
    slope, start = np.polyfit(np.arange(len(y)), y, 1)
    return float(slope), float(start)


def _find_best_splits(y: Numbers) -> list[tuple[list[int], float]]:
    """For 1, 2, .. `MOST` runs: where they start, and the sum of squares that is left."""
    n = len(y)
    cost = _segment_costs(y)
    least, before = cost[0], [np.zeros(n + 1, dtype=int)]
    splits = [([0], float(least[n]))]
    for _ in range(MOST - 1):
        total = least[:n, None] + cost  # [start of the last run, end of it]
        before.append(total.argmin(axis=0))
        least = total.min(axis=0)
        starts = [n]
        for back in reversed(before):
            starts.append(int(back[starts[-1]]))
        splits.append((starts[:0:-1], float(least[n])))
    return splits


def _segment_costs(y: Numbers) -> Numbers:
    """[i, j]: the squares that a line through y[i:j] leaves; inf where that is no run, (n, n+1)."""
    n, x = len(y), np.arange(len(y), dtype=np.float64)

    def sums(values: Numbers) -> Numbers:
        total = np.concatenate([[0.0], np.cumsum(values)])
        return np.asarray(total[None, :] - total[:-1, None], dtype=np.float64)

    z = y - y.mean()
    count = sums(np.ones(n))
    is_run = (count >= SHORTEST) | ((count >= 1) & (x[:, None] == 0))
    count = np.where(is_run, count, 1.0)
    of_x, of_z = sums(x), sums(z)
    xx = sums(x * x) - of_x**2 / count
    xz = sums(x * z) - of_x * of_z / count
    zz = sums(z * z) - of_z**2 / count
    left = zz - np.divide(xz**2, xx, out=np.zeros_like(xz), where=xx > 0.1)
    return np.where(is_run, left.clip(min=0.0), np.inf)
