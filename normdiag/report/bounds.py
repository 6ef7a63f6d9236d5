"""Bounds on numbers of a report: `--max measurements.growth.total=50`."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from normdiag.report.check import BoundStatus
from normdiag.report.paths import NumberPath, PathValue, worst_value
from normdiag.report.report import Report

Side = Literal["max", "min"]


@dataclass(frozen=True, slots=True)
class Bound:
    """The worst of the numbers that `path` leads to must be at most (at least) `limit`."""

    path: NumberPath
    side: Side
    limit: float


def evaluate_bounds(bounds: Iterable[Bound], report: Report) -> tuple[BoundStatus, ...]:
    """Hold the numbers of `report` against `bounds`.

    What is no number (NaN) is past every bound. A bound on what was not measured is unknown, not
    kept.
    """
    return tuple(_evaluate_bound(bound, report) for bound in bounds)


def _evaluate_bound(bound: Bound, report: Report) -> BoundStatus:
    values = bound.path.read_values(report)
    found = worst_value(values, bound.side)
    absent = sum(value.number is None for value in values)
    state, why = _bound_state(bound, values, found, absent)
    return BoundStatus(
        path=bound.path.text,
        bound=bound.side,
        limit=bound.limit,
        value=None if found is None else found.number,
        location=None if found is None else found.location,
        unmeasured=absent,
        state=state,
        why=why,
    )


def _bound_state(
    bound: Bound, values: tuple[PathValue, ...], found: PathValue | None, absent: int
) -> tuple[Literal["kept", "broken", "unknown"], str]:
    if found is None or found.number is None:
        near = [id for value in values for id in value.near]
        there = f"there are {', '.join(near)}" if near else "it was not measured"
        return (
            "unknown",
            f"{values[0].location if values else bound.path.text} is not there: {there}",
        )
    most = "most" if bound.side == "max" else "least"
    said = f"{found.location} is {found.number:.4g} and must be at {most} {bound.limit:.4g}"
    if absent:
        said += f"; {absent} of {len(values)} were not measured"
    return ("broken" if _is_violated(bound, found.number) else "kept"), said


def _is_violated(bound: Bound, number: float) -> bool:
    if math.isnan(number):
        return True
    return number > bound.limit if bound.side == "max" else number < bound.limit
