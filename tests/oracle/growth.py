"""The growth of a stack from independently measured norms.

Which law holds is tested on streams whose law is known (tests/numerics/test_growth_law.py); here
the norms come from plain hooks, and the rate of a law that is named is computed in another way: by
a straight line through log norms, or through squared norms.
"""

from __future__ import annotations

from dataclasses import asdict

import numpy as np
import pytest

from normdiag.numerics.growth_law import fit_growth_law
from normdiag.numerics.growth_phases import find_growth_phases
from tests.oracle.numbers import Numbers
from tests.oracle.taps import Array


def law_of(means: Array, ids: list[str], squares: Array) -> Numbers:
    """What the report says of these mean norms, add by add.

    `squares` are the mean squared norms of the first add's skip operand and the last add's sum.
    """
    verdict = fit_growth_law(means)
    behind = means[verdict.start :]
    _check_rate(verdict.law, verdict.rate, behind, bool(verdict.leaps))
    before, after = squares
    return {
        "law": verdict.law,
        "rate": verdict.rate,
        "rate_error": verdict.rate_error,
        "confidence": verdict.confidence,
        "runner_up": verdict.runner_up,
        "total": means[-1] / means[0],
        "total_after_start": means[-1] / behind[0],
        "start": ids[verdict.start] if verdict.start else None,
        "leaps": [{"add": ids[leap.add], "factor": leap.factor} for leap in verdict.leaps],
        "range": behind.max() / behind.min(),
        "misfit": verdict.misfit,
        "add_variance": (after / before - 1) / len(means) if after >= before else None,
        "phases": [asdict(phase) for phase in find_growth_phases(means, verdict)],
    }


def _check_rate(law: str, rate: float | None, norms: Array, has_leaps: bool) -> None:
    if has_leaps or rate is None:
        return
    depth = np.arange(len(norms))
    if law == "geometric":
        assert rate == pytest.approx(np.exp(np.polyfit(depth, np.log(norms), 1)[0]), rel=0.05)
    if law == "additive":
        slope = np.polyfit(depth, np.square(norms / norms[0]), 1)[0]
        assert rate == pytest.approx(slope, rel=0.3)
    if law == "power":
        slope = np.polyfit(np.log1p(depth), np.log(norms), 1)[0]
        assert rate == pytest.approx(slope, rel=0.2)
