"""The growth law of each stack: how ||y|| goes with depth, position 0 left out."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from normdiag.evidence.stream import Growth
from normdiag.measure.stream import TokenNumbers
from normdiag.numerics.growth_law import growth_law


def grow(adds: Sequence[TokenNumbers]) -> Growth | None:
    """`adds` in order of depth. Position 0 counts only where there is nothing else."""
    means = []
    for numbers in adds:
        later = numbers.position > 0
        means.append(float(numbers.out[later if later.any() else slice(None)].mean()))
    if len(means) < 2 or not all(np.isfinite(means)) or min(means) <= 0:
        return None
    verdict = growth_law(np.array(means))
    return Growth(
        law=verdict.law,
        rate=verdict.rate,
        rate_error=verdict.rate_error,
        confidence=verdict.confidence,
        total=means[-1] / means[0],
        runner_up=verdict.runner_up,
    )
