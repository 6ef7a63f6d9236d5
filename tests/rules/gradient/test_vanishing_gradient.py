from __future__ import annotations

import math

import pytest

from tests.rules.builders import STACK, evidence, judge_rule, one, run_rule
from tests.rules.gradient.flow import flowing, trend


def test_a_gradient_that_shrinks() -> None:
    finding = one(trend(1.4, 4000.0), "ND601")
    assert (finding.severity, finding.confidence) == ("warning", "high")
    assert (finding.value, finding.threshold, finding.ids) == (1.4, 1.12, (STACK,))
    assert "shrinks by a factor of 1.400 per layer" in finding.message
    assert "4,000 in total over 32 layers (threshold 100)" in finding.message


@pytest.mark.parametrize(
    ("rate", "total", "error"),
    [
        (1.0, 1.0, 0.001),
        (1.13, 1.9, 0.025),  # MiniLM: six layers
        (1.2, 99.0, 0.01),
        (1.119, 1e4, 0.0),
        (1.5, 1e4, 0.2),  # one jump that a line was laid through
        (0.5, 1e-9, 0.01),  # the other way
    ],
)
def test_what_is_not_this_defect_is_silent(rate: float, total: float, error: float) -> None:
    assert run_rule(trend(rate, total, error), "ND601") == ()


def test_two_adds_tell_a_rate_without_an_error() -> None:
    assert one(trend(200.0, 200.0, None), "ND601").confidence == "medium"


def test_no_gradient_at_all_in_the_first_layer() -> None:
    finding = one(flowing(ratios={STACK: math.inf}), "ND601")
    assert finding.value == math.inf and "is 0 at the first layer" in finding.message


def test_without_gradients_it_says_why_it_was_skipped() -> None:
    judgement = judge_rule(evidence(stacks=flowing().architecture.stacks), "ND601")
    assert "gradients" in judgement.skipped[0].why


def test_the_thresholds_can_be_set() -> None:
    assert run_rule(trend(1.4, 4000.0), "ND601", rate=1.5) == ()
    assert run_rule(trend(1.4, 4000.0), "ND601", total=5000) == ()
