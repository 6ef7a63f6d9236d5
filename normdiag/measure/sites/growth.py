"""The growth law of one stack: ||y|| over the depth, each sequence's first token left out.

Attention sinks are at the first token: its norm says little of the others'.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

import numpy as np

from normdiag.evidence.stream import Growth, GrowthPhase
from normdiag.measure.sites.stream import AddAccumulator
from normdiag.numerics.growth_law import fit_growth_law
from normdiag.numerics.growth_phases import find_growth_phases


def fit_growth(adds: Sequence[AddAccumulator]) -> Growth | None:
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
