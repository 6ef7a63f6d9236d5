"""The growth law of each stack: how ||y|| goes with depth, each sequence's first token left out.

The first token is where attention sinks are: its norm says little of the others'.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

import numpy as np

from normdiag.evidence.stream import Growth, Phase
from normdiag.measure.sites.stream import AddStream
from normdiag.numerics.growth_law import fit
from normdiag.numerics.growth_phases import phases


def grow(adds: Sequence[AddStream]) -> Growth | None:
    """`adds`: those of one stack, in order of depth."""
    means = [add.growing_norm() for add in adds]
    if len(means) < 2 or not all(np.isfinite(means)) or min(means) <= 0:
        return None
    norms = np.array(means)
    verdict = fit(norms)
    sinks = [ratio for ratio in (add.sink_ratio() for add in adds) if ratio is not None]
    return Growth(
        law=verdict.law,
        rate=verdict.rate,
        rate_error=verdict.rate_error,
        confidence=verdict.confidence,
        total=means[-1] / means[0],
        runner_up=verdict.runner_up,
        phases=tuple(
            Phase(first=p.first, last=p.last, factor=p.factor, step=p.step)
            for p in phases(norms, verdict)
        ),
        pace=_pace([add.update_ratio() for add in adds]),
        sink_ratio=max(sinks, default=None),
    )


def _pace(ratios: Sequence[float]) -> float | None:
    """The update ratio against 1/sqrt(l), that of the l-th of independent writes of one size."""
    later = [ratio * depth**0.5 for depth, ratio in enumerate(ratios)][len(ratios) // 2 :]
    return median(later) if len(ratios) > 2 else None
