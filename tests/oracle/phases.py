"""The phases of a stack's growth, by trying every split with numpy's own line through each run."""

from __future__ import annotations

from itertools import combinations, pairwise

import numpy as np

from tests.oracle.numbers import Numbers
from tests.oracle.taps import Array

OFF = 0.05
LEAD = 10.0
SHORTEST, MOST = 3, 5
NOISE = 1e-6


def phases_of(y: Array, aicc: float, off: float) -> list[Numbers]:
    """Of the log norms y, whose best law has this AICc and is off by this much."""
    if off < OFF:
        return []
    found = _best(y, 1)
    for runs in range(2, MOST + 1):
        more = _best(y, runs)
        gain = _aicc(found, y) - _aicc(more, y) if more is not None else 0.0
        if np.sqrt(_left(found, y) / len(y)) < OFF or not gain >= LEAD:
            break
        found = more
    if len(found) == 2 or _aicc(found, y) > aicc - LEAD:
        return []
    lines = [_line(y[a:b]) for a, b in pairwise(found)]
    ends = [line[-1] for line in lines]
    return [
        {
            "first": a,
            "last": b - 1,
            "factor": float(np.exp(line[1] - line[0])) if len(line) > 1 else 1.0,
            "step": float(np.exp(line[0] - before)) if a else None,
        }
        for (a, b), line, before in zip(pairwise(found), lines, [np.nan, *ends], strict=False)
    ]


def _best(y: Array, runs: int) -> tuple[int, ...] | None:
    splits = [(0, *inner, len(y)) for inner in combinations(range(1, len(y)), runs - 1)]
    allowed = [s for s in splits if all(b - a >= SHORTEST for a, b in pairwise(s[1:]))]
    return min(allowed, key=lambda s: _left(s, y), default=None)


def _line(run: Array) -> Array:
    x = np.arange(len(run))
    return np.polyval(np.polyfit(x, run, min(1, len(run) - 1)), x)


def _left(split: tuple[int, ...], y: Array) -> float:
    return float(sum(np.square(y[a:b] - _line(y[a:b])).sum() for a, b in pairwise(split)))


def _aicc(split: tuple[int, ...], y: Array) -> float:
    n, k = len(y), 3 * (len(split) - 1)
    if n <= k + 1:
        return np.inf
    deviance = n * np.log(max(_left(split, y) / n, NOISE**2))
    return float(deviance + 2 * k * n / (n - k - 1))
