"""The growth law of a stream, in words."""

from __future__ import annotations

import math

from normdiag.evidence.stream import Growth, GrowthLeap, GrowthPhase
from normdiag.number_text import format_factor, format_number, format_percent
from normdiag.render.escape import shorten_text

NORMED_SUMS = ("post", "deepnorm")
"""Placements in which each sum goes through a norm before the next layer receives it."""
_LEAPS = 4
_LAWS = {
    "additive": "additive, √(1 + b l) over adds l (independent writes), b = {rate}{error}",
    "geometric": "geometric, {rate} per add{error}",
    "power": "power of depth, exponent {rate}{error}",
    "bounded": "bounded, it tends to {rate} the first norm{error}",
}
_JUMP = 1.5
"""A step between two phases is mentioned from this factor on."""


def describe_growth(growth: Growth, placement: str = "pre") -> str:
    """Return by how much the stream grows with depth, where, and which law holds, if one does."""
    if not math.isfinite(growth.total):
        return "Growth with depth: no law, values are not finite."
    is_normed = placement in NORMED_SUMS
    parts = [
        f"Growth with depth: last add over first {format_factor(growth.total)} (mean over tokens "
        "without the first of each sequence"
        + (
            "; of the sums before their norms, whose outputs the layers receive)"
            if is_normed
            else ")"
        )
    ]
    if growth.init_total is not None and not is_normed:
        # a norm behind every sum takes its size away: layers receive no growth to be compared
        fresh = format_factor(growth.init_total)
        parts[0] += f"; at random initialisation {fresh} (one seed, up to 64 tokens of sequence 0)"
    if growth.start is not None:
        behind = "" if growth.total_after_start is None else format_factor(growth.total_after_start)
        parts.append(
            f"The update of {shorten_text(growth.start)} starts the stream; behind it {behind}"
        )
    if growth.leaps:
        parts.append(f"Leaps: {', '.join(map(_describe_leap, growth.leaps[:_LEAPS]))}")
        if len(growth.leaps) > _LEAPS:
            parts[-1] += f" and {len(growth.leaps) - _LEAPS} more"
    if growth.phases:
        parts.append(f"Phases: {', '.join(map(_describe_phase, growth.phases))}")
    parts.append(_describe_law(growth, is_normed=is_normed))
    return f"{'. '.join(parts)}."


def _describe_leap(leap: GrowthLeap) -> str:
    return f"{format_factor(leap.factor)} at {shorten_text(leap.add)}"


def _describe_phase(phase: GrowthPhase) -> str:
    is_one = phase.first == phase.last
    place = f"add {phase.first}" if is_one else f"adds {phase.first}-{phase.last}"
    step = 1.0 if phase.step is None else phase.step
    jump = "" if 1 / _JUMP < step < _JUMP else f"a jump of {format_factor(step)}, "
    return f"{jump}{format_factor(phase.factor)} per add in {place}"


def _describe_law(growth: Growth, *, is_normed: bool) -> str:
    where = []
    if growth.start is not None:
        where.append("behind the start")
    if growth.leaps:
        where.append("apart from the leaps")
    law = f"Law {' and '.join(where)}" if where else "Law"
    if growth.law == "constant":
        ratio = (
            ""
            if growth.range is None or growth.leaps
            else (f" (largest norm over smallest: {format_number(growth.range)})")
        )
        return f"{law}: constant, the stream keeps its size{ratio}"
    if growth.law == "undecided" or growth.rate is None or not math.isfinite(growth.rate):
        nearest = ""
        if growth.runner_up is not None and not is_normed:
            nearest = f"; nearest: {shorten_text(growth.runner_up)}"
        return f"{law}: none describes all adds{nearest}"
    error = format_standard_error(growth.rate, growth.rate_error)
    text = f"{law}: {_LAWS[growth.law].format(rate=_format_rate(growth), error=error)}"
    if growth.misfit is not None:
        text += f", misfit {format_percent(growth.misfit)} (root mean square)"
    if growth.confidence is not None:
        text += f"; Akaike weight {format_percent(growth.confidence)}"
    if growth.runner_up is not None:
        text += f", next: {shorten_text(growth.runner_up)}"
    return text


def _format_rate(growth: Growth) -> str:
    rate = growth.rate or 0.0
    return format_number(rate) if growth.law in ("additive", "power") else format_factor(rate)


def format_standard_error(rate: float, error: float | None) -> str:
    """Return the standard error of a fitted rate; of one below it, that it is not determined."""
    if error is None:
        return ""
    text = f" ± {format_number(error, 2)} (standard error)"
    return f"{text}: not determined by these adds" if error >= abs(rate) else text
