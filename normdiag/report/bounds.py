"""Bounds on numbers of a report: `--max measurements.growth.total=50`."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from normdiag.number_text import format_setting, format_value
from normdiag.report.check import BoundStatus
from normdiag.report.paths import NumberPath, PathValue, worst_value
from normdiag.report.report import Report

Side = Literal["max", "min"]


@dataclass(frozen=True, slots=True)
class Bound:
    """All numbers at `path` must be at most (at least) `limit`."""

    path: NumberPath
    side: Side
    limit: float


def evaluate_bounds(bounds: Iterable[Bound], report: Report) -> tuple[BoundStatus, ...]:
    """Compare the numbers of `report` with `bounds`.

    NaN violates every bound. A bound on a quantity that was not measured is "unknown".
    """
    return tuple(_evaluate_bound(bound, report) for bound in bounds)


def _evaluate_bound(bound: Bound, report: Report) -> BoundStatus:
    values = bound.path.read_values(report)
    worst = worst_value(values, bound.side)
    unmeasured = sum(value.number is None for value in values)
    state, why = _bound_state(bound, values, worst, unmeasured)
    return BoundStatus(
        path=bound.path.text,
        bound=bound.side,
        limit=bound.limit,
        value=None if worst is None else worst.number,
        location=None if worst is None else worst.location,
        unmeasured=unmeasured,
        state=state,
        why=why,
    )


def _bound_state(
    bound: Bound, values: tuple[PathValue, ...], worst: PathValue | None, unmeasured: int
) -> tuple[Literal["kept", "broken", "unknown"], str]:
    if worst is None or worst.number is None:
        near = [id for value in values for id in value.near]
        reason = f"similar ids: {', '.join(near)}" if near else "it was not measured"
        return (
            "unknown",
            f"{values[0].location if values else bound.path.text} is missing: {reason}",
        )
    most = "most" if bound.side == "max" else "least"
    limit = f"at {most} {format_setting(bound.limit)}"
    message = f"{worst.location} is {format_value(worst.number)} and must be {limit}"
    if unmeasured:
        message += f"; {unmeasured} of {len(values)} were not measured"
    return ("broken" if _is_violated(bound, worst.number) else "kept"), message


def _is_violated(bound: Bound, number: float) -> bool:
    if math.isnan(number):
        return True
    return number > bound.limit if bound.side == "max" else number < bound.limit
