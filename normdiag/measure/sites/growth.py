"""The growth law of one stack: ||y|| over the depth, each sequence's first token left out.

Attention sinks are at the first token: its norm says little of the others'.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

import numpy as np

from normdiag.evidence.stream import Growth, GrowthLeap, GrowthPhase
from normdiag.measure.sites.stream import AddAccumulator
from normdiag.numerics.growth_law import fit_growth_law
from normdiag.numerics.growth_phases import find_growth_phases


def fit_growth(ids: Sequence[str], adds: Sequence[AddAccumulator]) -> Growth | None:
    """Fit the mean ||y|| of the adds of one stack, in order of depth; None where that fails."""
    means = [add.growth_norm() for add in adds]
    if len(means) < 2 or not all(np.isfinite(means)) or min(means) <= 0:
        return None
    norms = np.array(means)
    verdict = fit_growth_law(norms)
    sinks = [ratio for ratio in (add.sink_ratio() for add in adds) if ratio is not None]
    return Growth(
        law=verdict.law,
        rate=verdict.rate,
        rate_error=verdict.rate_error,
        confidence=verdict.confidence,
        total=means[-1] / means[0],
        total_after_start=means[-1] / means[verdict.start],
        start=ids[verdict.start] if verdict.start else None,
        leaps=tuple(GrowthLeap(add=ids[leap.add], factor=leap.factor) for leap in verdict.leaps),
        range=max(means[verdict.start :]) / min(means[verdict.start :]),
        misfit=verdict.misfit,
        add_variance=_mean_increment([add.mean_squares() for add in adds]),
        runner_up=verdict.runner_up,
        phases=tuple(
            GrowthPhase(first=p.first, last=p.last, factor=p.factor, step=p.step)
            for p in find_growth_phases(norms, verdict)
        ),
        update_ratio_sqrt_depth=_scale_by_sqrt_depth([a.median_update_ratio() for a in adds]),
        sink_ratio=max(sinks, default=None),
    )


def _scale_by_sqrt_depth(ratios: Sequence[float]) -> float | None:
    """The median of update ratio * sqrt(depth) in the second half of the stack.

    The l-th of independent updates of one size has the ratio 1/sqrt(l). None of two adds or fewer.
    """
    later = [ratio * depth**0.5 for depth, ratio in enumerate(ratios)][len(ratios) // 2 :]
    return median(later) if len(ratios) > 2 else None


def _mean_increment(squares: Sequence[tuple[float, float]]) -> float | None:
    """q: what an add contributes to the mean square on average, over that of the stack's input.

    Args:
        squares: mean ||x||^2 and mean ||y||^2 of each add, over all tokens.
    """
    (before, _), (_, behind) = squares[0], squares[-1]
    return (behind / before - 1) / len(squares) if before > 0 and behind >= before else None
