"""The growth law of a stream, in words."""

from __future__ import annotations

import math

from normdiag.evidence.stream import Growth, Phase
from normdiag.render.escape import visible
from normdiag.render.units import number, percent, times

LEAP = 1.5
"""A step between two phases is worth a word from this factor on."""


def sentence(growth: Growth) -> str:
    """Return how the stream grows with depth, at which rate, and how sure that is."""
    if not math.isfinite(growth.total):
        return "has no law of growth: its values are not finite"
    said = (
        f"{_law(growth)}; {times(growth.total)} from the first add to the last, as the mean over "
        "all tokens but the first of each sequence"
    )
    if growth.over_init is not None:
        said += f", {times(growth.over_init)} the growth at initialisation"
    if growth.confidence is not None:
        said += f". Weight of this law among those tried: {percent(growth.confidence)}"
    if growth.runner_up is not None:
        said += f"; next best: {visible(growth.runner_up)}"
    if growth.phases:
        said += f". In phases: {', '.join(map(_phase, growth.phases))}"
    return said


def _phase(phase: Phase) -> str:
    is_one = phase.first == phase.last
    where = f"add {phase.first}" if is_one else f"adds {phase.first}-{phase.last}"
    step = 1.0 if phase.step is None else phase.step
    leap = "" if 1 / LEAP < step < LEAP else f"a leap of {times(step)}, "
    return f"{leap}×{number(phase.factor, 4)} per add in {where}"


def _law(growth: Growth) -> str:
    if growth.law == "constant":
        return "keeps its size"
    if growth.law == "undecided" or growth.rate is None or not math.isfinite(growth.rate):
        return "follows no one law"
    error = _give_or_take(growth.rate, growth.rate_error)
    if growth.law == "additive":
        rate = f"b = {number(growth.rate)}{error}"
        return f"grows as sqrt(1 + b l) with the add l, as if all writes were independent, {rate}"
    shrinks = growth.rate < (1.0 if growth.law == "geometric" else 0.0)
    verb = "shrinks" if shrinks else "grows"
    if growth.law == "geometric":
        return f"{verb} geometrically, ×{number(growth.rate, 4)} per add{error}"
    return f"{verb} as a power of depth, exponent {number(growth.rate)}{error}"


def _give_or_take(rate: float, error: float | None) -> str:
    if error is None:
        return ""
    said = f", give or take {number(error, 2)}"
    return f"{said}: these adds do not tell the rate" if error >= abs(rate) else said
