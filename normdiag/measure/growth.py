"""The growth law of each stack: how ||y|| goes with depth, each sequence's first token left out.

The first token is where attention sinks are: its norm says little of the others'.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from normdiag.evidence.stream import Growth
from normdiag.numerics.growth_law import fit


def grow(means: Sequence[float]) -> Growth | None:
    """`means`: the mean norm after each add, in order of depth."""
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
