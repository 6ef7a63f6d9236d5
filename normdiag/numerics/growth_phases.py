"""Phases of depth with one growth factor each, where no single law holds.

Many language models have them: GPT-2 XL grows by 1.045 per layer from layer 5 to 41, and
differently before and after (Heimersheim and Turner 2023); in others one update doubles the stream.
The log norms are split into runs of adds with a least-squares line in each; for each number of runs
the best split is computed exactly, by dynamic programming (Bellman 1961). A run is added while the
misfit is at least `MISFIT` and AICc decreases by `MARGIN`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from normdiag.numerics.growth_fits import compute_aicc, fit_norms
from normdiag.numerics.growth_law import GrowthLaw

Numbers = npt.NDArray[np.float64]

MISFIT = 0.05
"""Root-mean-square residual of the log norms below which a fit is good enough, 5 %."""
MARGIN = 10.0
"""Larger than the margin between laws, since splits fit the correlated residuals along depth."""
SHORTEST = 3
"""Smallest number of adds in a phase; the first may be shorter, since the start of a stream is
often much smaller than the first update."""
MOST = 5
"""Largest number of phases."""
_LEAST_POINTS = 5
_PARAMETERS = {"constant": 2, "geometric": 3, "additive": 3, "power": 3, "bounded": 4}
"""Of a law with its offset and the variance of the noise."""


@dataclass(frozen=True, slots=True)
class GrowthPhase:
    """A run of adds with one growth factor."""

    first: int
    last: int
    """The first and the last add, inclusive."""
    factor: float
    """Per add."""
    step: float | None
    """Factor by which the fitted curve jumps at `first`; None at the start of the stack."""


def find_growth_phases(norms: Numbers, law: GrowthLaw) -> tuple[GrowthPhase, ...]:
    """Find the phases of norms (n,), one per add in order of depth; none where the law fits.

    Args:
        norms: positive and finite.
        law: result of `fit_growth_law` for the same norms.
    """
    y = np.log(np.asarray(norms, dtype=np.float64))
    n = len(y)
    if n < _LEAST_POINTS or (law.misfit is not None and law.misfit < MISFIT):
        return ()
    aicc, misfit = fit_one_law(y)
    if misfit < MISFIT:
        return ()
    splits = _find_best_splits(y)
    starts, square_sum = splits[0]
    for number, (next_starts, next_sum) in enumerate(splits[1:], 2):
        gain = compute_aicc(square_sum, n, 3 * (number - 1)) - compute_aicc(next_sum, n, 3 * number)
        if math.sqrt(square_sum / n) < MISFIT or not gain >= MARGIN:
            break
        starts, square_sum = next_starts, next_sum
    if len(starts) == 1 or compute_aicc(square_sum, n, 3 * len(starts)) > aicc - MARGIN:
        return ()
    return _fit_phases(y, [*starts, n])


def fit_one_law(y: Numbers) -> tuple[float, float]:
    """AICc and root mean square residual of the single law that fits all log norms best."""
    best = (math.inf, math.inf)
    for fit in fit_norms(y):
        residual = y - fit.curve
        residual = residual - residual.mean()
        square_sum = float(residual @ residual)
        aicc = compute_aicc(square_sum, len(y), _PARAMETERS[fit.law])
        best = min(best, (aicc, math.sqrt(square_sum / len(y))))
    return best


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
    """For 1, 2, .. `MOST` runs, return their starts and the residual sum of squares."""
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
    """Residual sum of squares [i, j] of a line through y[i:j], (n, n+1); inf for invalid runs."""
    n, x = len(y), np.arange(len(y), dtype=np.float64)

    def segment_sums(values: Numbers) -> Numbers:
        total = np.concatenate([[0.0], np.cumsum(values)])
        return np.asarray(total[None, :] - total[:-1, None], dtype=np.float64)

    z = y - y.mean()
    count = segment_sums(np.ones(n))
    is_run = (count >= SHORTEST) | ((count >= 1) & (x[:, None] == 0))
    count = np.where(is_run, count, 1.0)
    of_x, of_z = segment_sums(x), segment_sums(z)
    xx = segment_sums(x * x) - of_x**2 / count
    xz = segment_sums(x * z) - of_x * of_z / count
    zz = segment_sums(z * z) - of_z**2 / count
    left = zz - np.divide(xz**2, xx, out=np.zeros_like(xz), where=xx > 0.1)
    return np.where(is_run, left.clip(min=0.0), np.inf)
