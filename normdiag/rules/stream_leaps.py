"""Adds at which a stream leaps, and the stored tensors that multiply the branch of an add."""

from __future__ import annotations

from math import prod

from normdiag.evidence.architecture import ResidualAdd
from normdiag.evidence.evidence import Evidence
from normdiag.evidence.stream import GrowthLeap
from normdiag.number_text import format_number

_MOST = 3


def find_leaps_before(evidence: Evidence, add: ResidualAdd) -> tuple[GrowthLeap, ...]:
    """Return the leaps upwards of the stack's stream at adds before `add`."""
    growth = evidence.measurements.growth.get(add.stack)
    if growth is None:
        return ()
    depths = {each.id: each.depth for each in evidence.architecture.adds_of_stack(add.stack)}
    return tuple(leap for leap in growth.leaps if leap.factor > 1 and depths[leap.add] < add.depth)


def multiply_leaps(leaps: tuple[GrowthLeap, ...]) -> float:
    """Return the product of the leaps' factors; 1 of none."""
    return prod(leap.factor for leap in leaps)


def describe_multipliers(add: ResidualAdd, below: float = float("inf")) -> str:
    """Describe the tensors of magnitude under `below` that multiply the branch, or nothing."""
    named = [each for each in add.multipliers if abs(each.value) < below][:_MOST]
    values = " and ".join(f"{each.name} = {format_number(each.value)}" for each in named)
    return f"; its branch is multiplied by {values}" if named else ""
