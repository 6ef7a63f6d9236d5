"""The growth law of a stream, in words."""

from __future__ import annotations

import math

from normdiag.evidence.stream import Growth, GrowthPhase
from normdiag.number_text import format_factor, format_number, format_percent
from normdiag.render.escape import shorten_text

_JUMP = 1.5
"""A step between two phases is mentioned from this factor on."""


def describe_growth(growth: Growth) -> str:
    """Return how the stream grows with depth, at which rate, and how certain that is."""
    if not math.isfinite(growth.total):
        return "Growth with depth: no law, values are not finite."
    text = (
        f"Growth with depth: {_describe_law(growth)}. Last add over first: "
        f"{format_factor(growth.total)} (mean over tokens without the first of each sequence)"
    )
    if growth.total_over_init is not None:
        text += f", {format_factor(growth.total_over_init)} that at initialisation"
    if growth.confidence is not None:
        text += f". Akaike weight of this law: {format_percent(growth.confidence)}"
    if growth.runner_up is not None:
        text += f"; next: {shorten_text(growth.runner_up)}"
    if growth.phases:
        text += f". Phases: {', '.join(map(_describe_phase, growth.phases))}"
    return f"{text}."


def _describe_phase(phase: GrowthPhase) -> str:
    is_one = phase.first == phase.last
    place = f"add {phase.first}" if is_one else f"adds {phase.first}-{phase.last}"
    step = 1.0 if phase.step is None else phase.step
    jump = "" if 1 / _JUMP < step < _JUMP else f"a jump of {format_factor(step)}, "
    return f"{jump}{format_factor(phase.factor)} per add in {place}"


def _describe_law(growth: Growth) -> str:
    if growth.law == "constant":
        return "constant"
    if growth.law == "undecided" or growth.rate is None or not math.isfinite(growth.rate):
        return "no single law"
    error = format_standard_error(growth.rate, growth.rate_error)
    if growth.law == "additive":
        rate = f"b = {format_number(growth.rate)}{error}"
        return f"additive, √(1 + b l) over adds l (independent writes), {rate}"
    if growth.law == "geometric":
        return f"geometric, {format_factor(growth.rate)} per add{error}"
    return f"power of depth, exponent {format_number(growth.rate)}{error}"


def format_standard_error(rate: float, error: float | None) -> str:
    """Return the standard error of a fitted rate; of one below it, that it is not determined."""
    if error is None:
        return ""
    text = f" ± {format_number(error, 2)} (standard error)"
    return f"{text}: not determined by these adds" if error >= abs(rate) else text
