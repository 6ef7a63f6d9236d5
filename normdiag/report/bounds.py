"""Bounds on numbers of a report: `--max measurements.growth.total=50`."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from normdiag.report.check import Bounded
from normdiag.report.paths import Path, Value, worst
from normdiag.report.report import Report

Side = Literal["max", "min"]


@dataclass(frozen=True, slots=True)
class Bound:
    """The worst of the numbers that `path` leads to must be at most (at least) `limit`."""

    path: Path
    side: Side
    limit: float


def measure(bounds: Iterable[Bound], report: Report) -> tuple[Bounded, ...]:
    """Hold the numbers of `report` against `bounds`.

    What is no number (NaN) is past every bound. A bound on what was not measured is unknown, not
    kept.
    """
    return tuple(_measure(bound, report) for bound in bounds)


def _measure(bound: Bound, report: Report) -> Bounded:
    values = bound.path.values(report)
    found = worst(values, bound.side)
    absent = sum(value.number is None for value in values)
    state, why = _state(bound, values, found, absent)
    return Bounded(
        path=bound.path.text,
        bound=bound.side,
        limit=bound.limit,
        value=None if found is None else found.number,
        at=None if found is None else found.at,
        absent=absent,
        state=state,
        why=why,
    )


def _state(
    bound: Bound, values: tuple[Value, ...], found: Value | None, absent: int
) -> tuple[Literal["kept", "broken", "unknown"], str]:
    if found is None or found.number is None:
        near = [id for value in values for id in value.near]
        there = f"there are {', '.join(near)}" if near else "it was not measured"
        return "unknown", f"{values[0].at if values else bound.path.text} is not there: {there}"
    most = "most" if bound.side == "max" else "least"
    said = f"{found.at} is {found.number:.4g} and must be at {most} {bound.limit:.4g}"
    if absent:
        said += f"; {absent} of {len(values)} were not measured"
    return ("broken" if _past(bound, found.number) else "kept"), said


def _past(bound: Bound, number: float) -> bool:
    if math.isnan(number):
        return True
    return number > bound.limit if bound.side == "max" else number < bound.limit
