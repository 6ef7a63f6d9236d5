"""The growth law of each stack: how ||y|| goes with depth, each sequence's first token left out.

The first token is where attention sinks are: its norm says little of the others'.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from normdiag.evidence.stream import Growth
from normdiag.measure.stream import TokenNumbers
from normdiag.numerics.growth_law import fit


def grow(adds: Sequence[TokenNumbers]) -> Growth | None:
    """`adds` in order of depth. First tokens count only where there is nothing else."""
    means = []
    for numbers in adds:
        later = ~numbers.is_first
        means.append(float(numbers.out[later if later.any() else slice(None)].mean()))
    if len(means) < 2 or not all(np.isfinite(means)) or min(means) <= 0:
        return None
    verdict = fit(np.array(means))
    return Growth(
        law=verdict.law,
        rate=verdict.rate,
        rate_error=verdict.rate_error,
        confidence=verdict.confidence,
        total=means[-1] / means[0],
        runner_up=verdict.runner_up,
    )
