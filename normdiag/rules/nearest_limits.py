"""Which thresholds of silent rules are nearest to being passed, found by moving them.

A rule reports a site up to some setting of its threshold and says nothing beyond. That setting is
the value of the site that is nearest to being reported, whatever quantity the rule compares.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping

from normdiag.evidence.evidence import Evidence
from normdiag.findings import NearestLimit
from normdiag.rules.rule import Rule
from normdiag.rules.thresholds import Limits, Threshold

RANGE = 100.0
"""Thresholds are moved by up to this factor: what is further away is not near."""
_STEPS = 15
"""Halvings of that range on a logarithmic scale: the value is right to 0.02 %."""
_MOST = 3


def find_nearest_limits(
    silent: Iterable[Rule], evidence: Evidence, limits: Mapping[str, Limits]
) -> tuple[NearestLimit, ...]:
    """Return the thresholds of `silent` rules that are nearest to being passed, nearest first.

    `silent`: rules that ran without a finding; `limits`: their thresholds in this run, by code.
    """
    found = [near for rule in silent for near in _list_limits(rule, evidence, limits[rule.code])]
    return tuple(sorted(found, key=lambda near: -near.nearness)[:_MOST])


def _list_limits(rule: Rule, evidence: Evidence, limits: Limits) -> Iterator[NearestLimit]:
    for threshold in rule.thresholds:
        limit = limits[threshold.name]
        value = _find_value(rule, threshold, evidence, limits)
        if value is not None and value and limit:
            nearness = limit / value if threshold.is_lower and limit > 0 else value / limit
            yield NearestLimit(
                code=rule.code,
                name=rule.name,
                quantity=threshold.unit,
                value=value,
                limit=limit,
                nearness=nearness,
            )


def _find_value(
    rule: Rule, threshold: Threshold, evidence: Evidence, limits: Limits
) -> float | None:
    """The setting from which the rule reports something; None where it does not within RANGE."""

    def reports(setting: float) -> bool:
        return any(True for _ in rule.check(evidence, {**limits, threshold.name: setting}))

    silent, near = limits[threshold.name], _move_limit(threshold, limits[threshold.name])
    if near == silent or not reports(near):
        return None
    for _ in range(_STEPS):
        middle = math.copysign(math.sqrt(silent * near), silent)
        silent, near = (silent, middle) if reports(middle) else (middle, near)
    return near


def _move_limit(threshold: Threshold, limit: float) -> float:
    """The limit moved towards more findings, within the range of valid settings."""
    towards = math.copysign(1, limit) * (1 if threshold.is_lower else -1)
    moved = limit * (RANGE if towards > 0 else 1 / RANGE)
    return min(max(moved, threshold.low), threshold.high)
