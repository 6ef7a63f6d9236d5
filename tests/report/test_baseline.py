"""Findings beside those of an earlier report."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from normdiag.findings import Finding
from normdiag.report.baseline import match_findings


def finding(code="ND301", ids=("a",), severity="warning", value=None, threshold=None):
    return Finding(
        code=code,
        name="name",
        severity=severity,
        confidence="high",
        ids=tuple(ids),
        message="",
        value=value,
        threshold=threshold,
        advice="",
    )


def states(now, before, margin=0.1):
    matched = match_findings(now, before, margin)
    return [change.state for change in matched.changes], list(matched.gone)


def test_the_same_are_known_in_whatever_order():
    a, b = finding(), finding("ND302", ("b", "c"))
    assert states([a, b], [b, a]) == (["known", "known"], [])
    assert states([finding(ids="cb")], [finding(ids="bc")]) == (["known"], [])
    assert states([finding(ids=())], [finding(ids=())]) == (["known"], [])


def test_another_code_or_other_ids_are_new_and_the_old_ones_gone():
    old = finding()
    assert states([finding("ND302")], [old]) == (["new"], [old])
    assert states([finding(ids=["b"])], [old]) == (["new"], [old])
    assert states([], [old]) == ([], [old])


def test_two_of_one_kind_are_not_one():
    assert states([finding(), finding()], [finding()]) == (["known", "new"], [])


def test_one_more_site_is_worse_and_one_less_is_known():
    assert states([finding(ids="abc")], [finding(ids="ab")]) == (["worse"], [])
    assert states([finding(ids="a")], [finding(ids="ab")]) == (["known"], [])


def test_a_wider_finding_does_not_take_the_place_of_an_equal_one():
    now = [finding(ids="abc"), finding(ids="ab")]
    assert states(now, [finding(ids="ab"), finding(ids="c")])[0] == ["worse", "known"]


def test_a_higher_severity_is_worse_and_a_lower_one_known():
    low, high = finding(), finding(severity="error")
    assert states([high], [low]) == (["worse"], [])
    assert states([low], [high]) == (["known"], [])


@pytest.mark.parametrize(
    ("now", "before", "threshold", "state"),
    [
        (11.0, 10.0, 1.0, "known"),
        (11.1, 10.0, 1.0, "worse"),
        (5.0, 10.0, 1.0, "known"),
        (0.091, 0.1, 1.0, "known"),  # below its threshold, so less is worse
        (0.089, 0.1, 1.0, "worse"),
        (0.9, 0.1, 1.0, "known"),
        (-1.2, -1.0, 0.0, "worse"),
        (-0.8, -1.0, 0.0, "known"),
        (3.0, 2.0, None, "worse"),
        (2.0, 3.0, None, "known"),
        (math.nan, 2.0, 1.0, "worse"),
        (math.nan, math.nan, 1.0, "known"),
        (2.0, math.nan, 1.0, "known"),
        (math.inf, 2.0, 1.0, "worse"),
        (math.inf, math.inf, 1.0, "known"),
        (2.0, math.inf, 1.0, "known"),
        (None, 2.0, 1.0, "known"),
        (2.0, None, 1.0, "known"),
        (1.0, 0.0, 0.5, "worse"),
    ],
)
def test_a_value_is_worse_past_the_margin_on_its_bad_side(now, before, threshold, state):
    new, old = (finding(value=value, threshold=threshold) for value in (now, before))
    assert states([new], [old]) == ([state], [])


def test_the_margin_is_told():
    comparison = match_findings([finding(value=3.0)], [finding(value=2.0)], 0.25)
    assert comparison.changes[0].why == "its value was 2; 3 is worse by more than 25%"


FINDINGS = st.lists(
    st.builds(
        finding,
        code=st.sampled_from(["ND1", "ND2"]),
        ids=st.lists(st.sampled_from("abc"), unique=True),
        value=st.none() | st.floats(),
    ),
    max_size=5,
)


@given(FINDINGS, FINDINGS)
def test_nothing_is_lost_or_counted_twice(now, before):
    comparison = match_findings(now, before, 0.1)
    matched = sum(change.state != "new" for change in comparison.changes)
    assert len(comparison.changes) == len(now)
    assert matched + len(comparison.gone) == len(before)


@given(FINDINGS)
def test_beside_itself_all_is_known(findings):
    comparison = match_findings(findings, findings, 0.0)
    assert {change.state for change in comparison.changes} <= {"known"}
    assert comparison.gone == ()
