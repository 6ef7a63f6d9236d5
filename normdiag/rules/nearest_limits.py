"""Which thresholds of silent rules are nearest to being passed, found by moving them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping

from normdiag.evidence.evidence import Evidence
from normdiag.findings import Finding, NearestLimit
from normdiag.rules.rule import Rule
from normdiag.rules.threshold_borders import bisect_floats
from normdiag.rules.thresholds import Limits, Threshold

RANGE = 100.0
"""Thresholds are moved by up to this factor: what is further away is not named."""
_GAP, _BESIDE = 1 << 20, 1e-9
"""Floats up to which a border is searched, 2e-10 of it, and how far beside it is surely inside."""


def find_nearest_limits(
    silent: Iterable[Rule], evidence: Evidence, limits: Mapping[str, Limits]
) -> tuple[NearestLimit, ...]:
    """Return the thresholds of `silent` rules that are within reach, the nearest first.

    `silent`: rules that ran without a finding; `limits`: their thresholds in this run, by code.
    Of thresholds that one value is compared with, the nearest stands for all.
    """
    nearest: dict[tuple[str, str, str], NearestLimit] = {}
    for rule in silent:
        for threshold in rule.thresholds:
            for each in _find_limit(rule, threshold, evidence, limits[rule.code]):
                key = (each.code, each.quantity, f"{each.value:.6g}")
                if key not in nearest or nearest[key].nearness < each.nearness:
                    nearest[key] = each
    return tuple(sorted(nearest.values(), key=lambda each: -each.nearness))


def _find_limit(
    rule: Rule, threshold: Threshold, evidence: Evidence, limits: Limits
) -> Iterator[NearestLimit]:
    """At most one: none where the rule reports nothing within the range."""

    def list_findings(setting: float) -> Iterator[Finding]:
        return rule.check(evidence, {**limits, threshold.name: setting})

    def reports(setting: float) -> bool:
        return any(True for _ in list_findings(setting))

    limit = limits[threshold.name]
    moved = _move_limit(threshold, limit)
    if moved in (limit, 0.0) or not reports(moved):
        return
    value = bisect_floats(reports, moved, limit, _GAP)
    reported = list_findings(value + math.copysign(abs(value) * _BESIDE, moved - value))
    yield NearestLimit(
        code=rule.code,
        name=rule.name,
        quantity=threshold.unit,
        value=float(f"{value:.9g}"),
        limit=limit,
        nearness=limit / value if threshold.is_lower and limit > 0 else value / limit,
        threshold=threshold.name,
        ids=tuple(dict.fromkeys(id for finding in reported for id in finding.ids)),
    )


def _move_limit(threshold: Threshold, limit: float) -> float:
    """The limit moved towards more findings, within the range of valid settings."""
    towards = math.copysign(1, limit) * (1 if threshold.is_lower else -1)
    moved = limit * (RANGE if towards > 0 else 1 / RANGE)
    return min(max(moved, threshold.low), threshold.high)
