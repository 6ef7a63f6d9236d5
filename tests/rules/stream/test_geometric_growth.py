from __future__ import annotations

import pytest

from normdiag.evidence.stream import Growth
from tests.rules.builders import adds, evidence, found, one, stack


def grown(layers: int = 32, placement: str = "pre", **given):
    law = {
        "law": "geometric",
        "rate": 1.3,
        "rate_error": 0.005,
        "confidence": 0.99,
        "total": 3000.0,
        **given,
    }
    return evidence(
        stacks=(stack(layers, placement=placement),),
        adds=adds(layers),
        growth={"layers": Growth(**law)},
    )


def test_a_stream_that_multiplies() -> None:
    finding = one(grown(), "ND401")
    assert (finding.severity, finding.confidence) == ("warning", "high")
    assert (finding.value, finding.threshold) == (1.3, 1.12)
    assert finding.ids == ("layers",)
    assert "multiplied by 1.3 per add (threshold 1.12)" in finding.message
    assert "3000 times over 32 adds (threshold 30)" in finding.message
    assert "--site 'layers.31/add#0'" in finding.advice


@pytest.mark.parametrize(
    "healthy",
    [
        {"rate": 1.022, "total": 510.0},  # GPT-2 XL
        {"rate": 1.119},
        {"total": 29.0},
        {"rate": 2.0, "rate_error": 0.8},  # one jump that a line was laid through
        {"law": "additive"},
        {"law": "power"},
        {"law": "constant", "rate": None, "rate_error": None},
        {"law": "undecided", "rate": None, "rate_error": None, "confidence": None},
    ],
)
def test_what_is_not_this_defect_is_silent(healthy: dict) -> None:
    assert found(grown(**healthy), "ND401") == ()


def test_a_guess_is_called_one() -> None:
    assert one(grown(layers=8), "ND401").confidence == "medium"
    assert one(grown(confidence=0.7), "ND401").confidence == "medium"


def test_without_norms_the_advice_is_a_norm() -> None:
    finding = one(grown(placement="none"), "ND401")
    assert finding.message.startswith("no branch is normalised")
    assert finding.advice.startswith("normalise what each branch reads")


def test_the_thresholds_can_be_set() -> None:
    assert found(grown(), "ND401", rate=1.4) == ()
    assert found(grown(), "ND401", total=1e4) == ()
    assert one(grown(rate=1.05, rate_error=0.001, total=5.0), "ND401", rate=1.04, total=4)
