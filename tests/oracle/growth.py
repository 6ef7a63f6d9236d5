"""The growth of a stack from independently measured norms.

The norms come from plain hooks. The law and its rate are held against `growth_opinion`, which
shares no code with the tool; so are streams whose law is known (test_growth_opinion.py).
"""

from __future__ import annotations

from dataclasses import asdict

import pytest

from normdiag.numerics.growth_law import fit_growth_law
from normdiag.numerics.growth_phases import find_growth_phases
from tests.oracle.growth_opinion import FACTOR, RMS, form_opinion
from tests.oracle.numbers import Numbers
from tests.oracle.taps import Array

DEEP = 12
TOLERANCES = {"geometric": 0.01, "additive": 0.3, "power": 0.2, "bounded": 0.3}
"""Relative; writes of models scatter by tens of percent, and the two weigh them differently."""


def law_of(means: Array, ids: list[str], squares: Array) -> Numbers:
    """What the report says of these mean norms, add by add.

    `squares` are the mean squared norms of the first add's skip operand and the last add's sum.
    """
    verdict = fit_growth_law(means)
    behind = means[verdict.start :]
    if not verdict.leaps:
        _check_choice(verdict.law, verdict.rate, behind)
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


def _check_choice(law: str, rate: float | None, norms: Array) -> None:
    """Against a second opinion on the norms behind the start: of a stack of `DEEP` adds, nothing
    that it names clearly is named otherwise; a shallower one is named with the same rate."""
    opinion = form_opinion(norms)
    if opinion.law == law and rate is not None:
        assert rate == pytest.approx(opinion.parameter, rel=TOLERANCES[law])
    if len(norms) >= DEEP:
        assert opinion.law == law or "undecided" in (law, opinion.law)
    if law in opinion.curves:
        rms, factor = opinion.misses(norms)[law]
        assert rms <= 1.1 * RMS
        assert factor <= 1.1 * FACTOR
