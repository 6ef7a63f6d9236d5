"""Which thresholds of silent rules are nearest to being passed, found by moving them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from normdiag.evidence.evidence import Evidence
from normdiag.findings import NearestLimit
from normdiag.rules.rule import Rule
from normdiag.rules.threshold_borders import bisect_floats
from normdiag.rules.thresholds import Limits, Threshold

RANGE = 100.0
"""Thresholds are moved by up to this factor: what is further away is not named."""
_STEPS = 8
"""Halvings of that range on a logarithmic scale, to 2 %: enough to rank."""
_MOST = 3


@dataclass(frozen=True, slots=True)
class _Bracket:
    """Settings of one threshold between which its rule begins to report."""

    rule: Rule
    threshold: Threshold
    limit: float
    reports: Callable[[float], bool]
    reporting: float
    silent: float

    def rate_nearness(self, value: float) -> float:
        """1 at the limit, less for values further away."""
        is_inverse = self.threshold.is_lower and self.limit > 0
        return self.limit / value if is_inverse else value / self.limit


def find_nearest_limits(
    silent: Iterable[Rule], evidence: Evidence, limits: Mapping[str, Limits]
) -> tuple[NearestLimit, ...]:
    """Return the thresholds of `silent` rules that are nearest to being passed, nearest first.

    `silent`: rules that ran without a finding; `limits`: their thresholds in this run, by code.
    """
    found = [each for rule in silent for each in _find_brackets(rule, evidence, limits[rule.code])]
    found.sort(key=lambda each: -each.rate_nearness(each.reporting))
    return tuple(map(_find_limit, found[:_MOST]))


def _find_limit(bracket: _Bracket) -> NearestLimit:
    border = bisect_floats(bracket.reports, bracket.reporting, bracket.silent)
    value = float(f"{border:.12g}")  # the border lies between two floats, one of them the value
    return NearestLimit(
        code=bracket.rule.code,
        name=bracket.rule.name,
        quantity=bracket.threshold.unit,
        value=value,
        limit=bracket.limit,
        nearness=bracket.rate_nearness(value),
    )


def _find_brackets(rule: Rule, evidence: Evidence, limits: Limits) -> Iterator[_Bracket]:
    for threshold in rule.thresholds:
        limit = limits[threshold.name]

        def reports(setting: float, name: str = threshold.name) -> bool:
            return any(True for _ in rule.check(evidence, {**limits, name: setting}))

        silent, near = limit, _move_limit(threshold, limit)
        if near in (silent, 0.0) or not reports(near):
            continue
        for _ in range(_STEPS):
            middle = math.copysign(math.sqrt(silent * near), silent)
            silent, near = (silent, middle) if reports(middle) else (middle, near)
        yield _Bracket(rule, threshold, limit, reports, near, silent)


def _move_limit(threshold: Threshold, limit: float) -> float:
    """The limit moved towards more findings, within the range of valid settings."""
    towards = math.copysign(1, limit) * (1 if threshold.is_lower else -1)
    moved = limit * (RANGE if towards > 0 else 1 / RANGE)
    return min(max(moved, threshold.low), threshold.high)
