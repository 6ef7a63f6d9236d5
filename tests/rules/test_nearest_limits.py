from __future__ import annotations

from collections.abc import Mapping

import pytest

from normdiag.evidence.evidence import Evidence
from normdiag.findings import NearestLimit
from normdiag.rules.engine import judge_evidence
from normdiag.rules.nearest_limits import RANGE
from normdiag.rules.registry import RULES, find_rule
from tests import factories
from tests.rules.builders import evidence, make_adds, stack
from tests.rules.sample_reports import ROOT, inspect_target


def with_ratio(ratio: float) -> Evidence:
    """Adds whose median update ratio is `ratio`, a little beyond what ND403 or ND402 report."""
    adds = make_adds(6)
    stream = {add.id: factories.add_measurement(update=ratio) for add in adds}
    return evidence(stacks=(stack(6),), adds=adds, stream=stream)


def nearest_of(seen: Evidence, code: str, **limits: float) -> NearestLimit | None:
    judgement = judge_evidence(seen, select=[code], thresholds={code: limits} if limits else None)
    return next(iter(judgement.nearest), None)


def test_a_value_below_an_upper_limit_is_named_with_it() -> None:
    near = nearest_of(with_ratio(8.0), "ND403")
    assert near is not None and (near.code, near.limit) == ("ND403", 10)
    assert near.value == pytest.approx(8.0, rel=1e-3)
    assert near.nearness == pytest.approx(0.8, rel=1e-3)
    assert near.quantity == "||u|| / ||x||"


def test_a_value_above_a_lower_limit_is_named_with_it() -> None:
    near = nearest_of(with_ratio(1.25e-4), "ND402")
    assert near is not None
    assert near.value == pytest.approx(1.25e-4, rel=1e-3)
    assert near.nearness == pytest.approx(0.8, rel=1e-3)


def test_what_is_further_away_than_the_range_is_not_near() -> None:
    assert nearest_of(with_ratio(1e-4 * RANGE * 1.1), "ND402") is None
    assert nearest_of(with_ratio(1e-4 * RANGE * 0.9), "ND402") is not None


def test_a_rule_that_reports_is_not_near() -> None:
    assert nearest_of(with_ratio(11.0), "ND403") is None


def test_the_limit_is_that_of_the_run() -> None:
    near = nearest_of(with_ratio(8.0), "ND403", update_ratio=8.5)
    assert near is not None and near.limit == 8.5


def found_by_moving(seen: Evidence, near: NearestLimit) -> Mapping[str, bool]:
    """Whether the rule reports with its threshold a little on either side of the value."""
    rule = find_rule(near.code)
    (threshold,) = (
        t for t in rule.thresholds if (t.unit, t.default) == (near.quantity, near.limit)
    )
    outcomes = {}
    for side, factor in {"within": 1.001, "beyond": 0.999}.items():
        factor = 1 / factor if threshold.is_lower and near.value > 0 else factor
        limits = {near.code: {threshold.name: near.value * factor}}
        judged = judge_evidence(seen, select=[near.code], thresholds=limits)
        outcomes[side] = bool(judged.findings)
    return outcomes


@pytest.mark.parametrize("model", ["tiny_llama", "pre_norm.py:build", "post_norm.py:build"])
def test_the_values_of_sample_models_are_those_at_which_the_rule_begins_to_report(
    model: str,
) -> None:
    report = inspect_target(str(ROOT / "sample_models" / model))
    near = report.rules.nearest
    assert near and [each.nearness for each in near] == sorted(
        (each.nearness for each in near), reverse=True
    )
    assert {each.code for each in near} <= set(report.rules.passed) <= {r.code for r in RULES}
    for each in near:
        assert found_by_moving(report.to_evidence(), each) == {"within": False, "beyond": True}


def test_every_limit_within_reach_is_named_with_the_sites_that_would_be_reported() -> None:
    seen = with_ratio(8.0)
    ids = tuple(seen.measurements.stream)[1:]  # the first layer may overwrite
    near = nearest_of(seen, "ND403")
    assert near is not None and near.threshold == "update_ratio"
    assert set(near.ids) <= set(ids) and near.ids
    moved = judge_evidence(
        seen, select=["ND403"], thresholds={"ND403": {"update_ratio": near.value * 0.999}}
    )
    assert near.ids == moved.findings[0].ids


def test_of_two_limits_on_one_value_the_nearer_one_is_named() -> None:
    report = inspect_target(str(ROOT / "sample_models" / "tiny_llama"))
    held = [(each.code, each.quantity, each.value) for each in report.rules.nearest]
    assert len(held) == len(set(held)) > 3
