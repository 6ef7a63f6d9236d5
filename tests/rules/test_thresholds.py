"""A threshold that cannot be meant is refused: it would leave the gate open."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from normdiag.errors import UsageError
from normdiag.evidence.evidence import Evidence
from normdiag.report.report import Report
from normdiag.rules.engine import judge_evidence
from normdiag.rules.registry import RULES
from normdiag.rules.thresholds import Threshold, resolve_thresholds
from tests.rules.builders import evidence, make_measurement, norms

SHARE = Threshold(
    name="share", unit="1", default=0.5, meaning="m", source="s (2020)", low=0.0, high=1.0
)
SIZE = Threshold(name="size", unit="1", default=3, meaning="m", source="s (2020)", low=1.0)


def test_defaults_hold_where_nothing_is_set() -> None:
    assert resolve_thresholds("rule", (SHARE, SIZE), {}) == {"share": 0.5, "size": 3}


def test_one_is_set_and_the_other_stays() -> None:
    assert resolve_thresholds("rule", (SHARE, SIZE), {"size": 7}) == {"share": 0.5, "size": 7.0}


@given(st.floats(0.0, 1.0))
def test_the_whole_range_may_be_set(value: float) -> None:
    assert resolve_thresholds("rule", (SHARE,), {"share": value}) == {"share": value}


@given(st.floats().filter(lambda x: not 0.0 <= x <= 1.0))
def test_nothing_outside_of_it(value: float) -> None:
    with pytest.raises(UsageError, match="threshold share of rule"):
        resolve_thresholds("rule", (SHARE,), {"share": value})


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, True, "0.5", None])
def test_what_is_not_a_finite_number_is_refused(value: object) -> None:
    with pytest.raises(UsageError, match="finite number"):
        resolve_thresholds("rule", (SIZE,), {"size": value})  # type: ignore[dict-item]


def test_an_unknown_threshold_names_those_there_are() -> None:
    with pytest.raises(UsageError) as caught:
        resolve_thresholds("rule", (SHARE, SIZE), {"shares": 0.1})
    assert "did you mean share? it has share, size" in str(caught.value)


def test_a_rule_without_thresholds_says_so() -> None:
    with pytest.raises(UsageError, match="it has none"):
        resolve_thresholds("rule", (), {"share": 0.1})


def make_evidence(share: float) -> Evidence:
    (norm,) = norms(1)
    return evidence(norms=(norm,), norm_inputs={norm.id: make_measurement(share)})


def test_an_unknown_rule_is_refused() -> None:
    with pytest.raises(UsageError, match="no rule is called 'epsilon'"):
        judge_evidence(make_evidence(0.3), thresholds={"epsilon": {"eps_share": 0.1}})


def test_a_family_has_no_thresholds() -> None:
    with pytest.raises(UsageError, match="no rule is called 'ND3'"):
        judge_evidence(make_evidence(0.3), thresholds={"ND3": {"eps_share": 0.1}})


def test_what_is_set_for_rules_that_are_not_selected_is_read_too() -> None:
    with pytest.raises(UsageError, match="finite number"):
        judge_evidence(
            make_evidence(0.3), select=["ND1"], thresholds={"ND301": {"eps_share": math.nan}}
        )


@pytest.mark.parametrize("word", ["ND301", "epsilon-dominates"])
def test_a_finding_prints_the_threshold_that_held(word: str) -> None:
    (mild,) = judge_evidence(make_evidence(0.3), select=["ND301"]).findings
    assert mild.severity == "info"
    (severe,) = judge_evidence(
        make_evidence(0.3), select=["ND301"], thresholds={word: {"eps_share": 0.25}}
    ).findings
    assert severe.severity == "warning" and severe.threshold == 0.25
    assert "threshold 0.25)" in severe.message


@pytest.mark.parametrize("word", ["ND301", "epsilon-dominates"])
def test_the_outcome_holds_what_the_user_set_whether_it_was_passed_or_not(word: str) -> None:
    for share in (0.25, 0.9):
        outcome = judge_evidence(make_evidence(0.3), thresholds={word: {"eps_share": share}})
        report = Report.from_evidence(make_evidence(0.3), outcome)
        assert outcome.thresholds == {"ND301": {"eps_share": share}} == report.rules.thresholds
    assert judge_evidence(make_evidence(0.3)).thresholds == {}


def test_every_threshold_can_be_set_to_its_own_default() -> None:
    for rule in RULES:
        defaults = {threshold.name: threshold.default for threshold in rule.thresholds}
        assert resolve_thresholds(rule.name, rule.thresholds, defaults) == defaults
