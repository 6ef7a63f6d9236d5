from __future__ import annotations

import math
from dataclasses import replace

import pytest

from normdiag.evidence.gradients import Loss
from tests.rules.builders import STACK, one, run_rule
from tests.rules.gradient.flow import flowing, gradients, trend


def test_a_gradient_that_grows() -> None:
    finding = one(trend(0.5, 1e-4), "ND602")
    assert (finding.severity, finding.confidence) == ("warning", "high")
    assert (finding.value, finding.threshold, finding.ids) == (2.0, 1.12, (STACK,))
    assert "grows by a factor of 2.00 per layer" in finding.message
    assert "10,000 in total over 32 layers (threshold 100)" in finding.message


@pytest.mark.parametrize(
    ("rate", "total", "error"),
    [
        (1.0, 1.0, 0.001),
        (0.9176, 0.079, 0.005),  # SmolLM2
        (0.82, 0.09, 0.02),  # OLMo 2 at initialisation
        (0.895, 1e-3, 0.0),
        (0.8, 1e-3, 0.1),
        (2.0, 1e9, 0.01),
    ],
)
def test_what_is_not_this_defect_is_silent(rate: float, total: float, error: float) -> None:
    assert run_rule(trend(rate, total, error), "ND602") == ()


def test_a_gradient_that_is_not_finite_where_the_loss_is() -> None:
    stream = {**gradients().stream}
    stream["layers.3/add#0"] = math.inf
    finding = one(flowing(stream=stream, trends={}), "ND602")
    assert (finding.severity, finding.value) == ("error", math.inf)
    assert "not finite at 1 add of layers" in finding.message


def test_a_loss_that_is_not_finite_says_nothing_of_gradients() -> None:
    stream = dict.fromkeys(gradients().stream, math.nan)
    loss = Loss(kind="causal-lm", value=math.nan, tokens=63)
    assert run_rule(flowing(stream=stream, trends={}, loss=loss), "ND602") == ()


def test_the_thresholds_can_be_set() -> None:
    seen = trend(0.9176, 0.079, 0.005)
    assert one(seen, "ND602", rate=1.05, total=12).value == pytest.approx(1 / 0.9176)
    assert run_rule(replace(trend(0.5, 1e-4)), "ND602", rate=2.1) == ()
