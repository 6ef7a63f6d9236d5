"""What each threshold is compared with in one model, found by moving the threshold."""

from __future__ import annotations

from itertools import product

from normdiag.evidence.evidence import Evidence
from normdiag.rules.registry import RULES
from normdiag.rules.requirements import missing_reason
from normdiag.rules.rule import Rule
from normdiag.rules.threshold_borders import bisect_floats, list_range_ends
from normdiag.rules.thresholds import Limits, Threshold

COUNTS = frozenset({"ND703.share_of_adds"})
"""Thresholds for the number of sites beyond another threshold, which keeps its default."""


def find_quantities(evidence: Evidence) -> dict[str, float | None]:
    """Return "CODE.threshold" -> the value nearest to being reported, for all rules.

    None where no valid setting of the threshold makes a difference to what the rule reports.
    """
    return {
        f"{rule.code}.{threshold.name}": find_quantity(rule, threshold, evidence)
        for rule in RULES
        for threshold in rule.thresholds
    }


def find_quantity(rule: Rule, threshold: Threshold, evidence: Evidence) -> float | None:
    """Return the value that is nearest to being reported for this threshold.

    The other thresholds of the rule stand at their defaults or each at an end of its range,
    wherever that leaves most to this one: a value counts that only another threshold holds back.
    """
    if any(missing_reason(evidence, requirement) for requirement in rule.requirements):
        return None
    key = f"{rule.code}.{threshold.name}"
    settings = [{each.name: each.default for each in rule.thresholds}]
    if key not in COUNTS:
        names = [each.name for each in rule.thresholds]
        ends = map(list_range_ends, rule.thresholds)
        settings += [dict(zip(names, of, strict=True)) for of in product(*ends)]
    found = (_find_border(rule, threshold, evidence, limits) for limits in settings)
    values = [value for value in found if value is not None]
    return (min if threshold.is_lower else max)(values, default=None)


def _find_border(
    rule: Rule, threshold: Threshold, evidence: Evidence, limits: Limits
) -> float | None:
    def list_outcomes(setting: float) -> list[tuple[object, ...]]:
        findings = rule.check(evidence, {**limits, threshold.name: setting})
        return [(each.severity, each.confidence, each.ids) for each in findings]

    most, least = list_range_ends(threshold)
    outcomes = list_outcomes(least)
    if list_outcomes(most) == outcomes:
        return None
    return bisect_floats(lambda setting: list_outcomes(setting) != outcomes, most, least)
