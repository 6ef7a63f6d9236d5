from __future__ import annotations

import math
from dataclasses import replace

import pytest

from normdiag.evidence.architecture import Placement
from normdiag.evidence.evidence import Evidence
from normdiag.evidence.gradients import Loss
from normdiag.evidence.stream import Growth
from tests.rules.builders import STACK, one, run_rule
from tests.rules.gradient.flow import flowing, gradients, trend


def test_a_gradient_that_grows() -> None:
    finding = one(trend(0.5, 1e-4), "ND602")
    assert (finding.severity, finding.confidence) == ("warning", "high")
    assert (finding.value, finding.threshold, finding.ids) == (2.0, 1.12, (STACK,))
    assert "grows by a factor of 2.00 per layer" in finding.message
    assert "10,000 in total over 32 layers (threshold 100)" in finding.message


def grown_stack(seen: Evidence, total: float, placement: Placement = "pre") -> Evidence:
    (one_stack,) = seen.architecture.stacks
    law = Growth(law="undecided", rate=None, rate_error=None, confidence=None, total=total)
    return replace(
        seen,
        architecture=replace(seen.architecture, stacks=(replace(one_stack, placement=placement),)),
        measurements=replace(seen.measurements, growth={STACK: law}),
    )


def test_the_growth_of_a_normed_stream_explains_that_of_the_gradient() -> None:
    seen = trend(0.8, 1 / 600, 0.001)
    explained = one(grown_stack(seen, 2747.0), "ND602")
    assert explained.severity == "info"
    assert explained.advice.startswith("expected behind norms")
    assert explained.message.endswith("; 0.218 times the growth of ||y||, 2,747 (threshold 30)")
    assert one(grown_stack(seen, 20.1), "ND602").severity == "info"
    assert one(grown_stack(seen, 19.9), "ND602").severity == "warning"
    assert one(grown_stack(seen, 2747.0, "none"), "ND602").severity == "warning"
    assert one(grown_stack(seen, 2747.0), "ND602", unexplained=0.2).severity == "warning"


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
