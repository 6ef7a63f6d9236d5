from __future__ import annotations

from math import nan

import pytest

from normdiag.evidence.architecture import Scale
from normdiag.evidence.evidence import Evidence
from tests import factories
from tests.rules.builders import evidence, make_adds, one, run_rule, stack


def make_evidence(ratios: list[float], mode: str = "run", **given) -> Evidence:
    """One add per layer with these median update ratios."""
    made = make_adds(len(ratios), **given)
    return evidence(
        subject={"mode": mode},
        stacks=(stack(len(ratios)),),
        adds=made,
        stream={
            add.id: factories.add_measurement(update=ratio)
            for add, ratio in zip(made, ratios, strict=True)
        },
    )


def test_one_branch_that_writes_next_to_nothing() -> None:
    finding = one(make_evidence([0.3, 3e-6, 0.2]), "ND402")
    assert (finding.severity, finding.confidence) == ("warning", "high")
    assert (finding.value, finding.threshold) == (3e-6, 1e-4)
    assert finding.ids == ("layers.1/add#0",)
    assert "||u|| / ||x|| is 3.00e-6 (median over tokens, threshold 0.0001) at layers.1/add#0" in (
        finding.message
    )


def test_many_are_one_finding_the_least_first() -> None:
    finding = one(make_evidence([0.3, 3e-6, 1e-7, 0.0, 0.2]), "ND402")
    assert finding.ids == ("layers.3/add#0", "layers.2/add#0", "layers.1/add#0")
    assert finding.value == 0.0
    assert "at 3 adds, layers 1-3 of layers" in finding.message


@pytest.mark.parametrize("ratios", [[0.3], [1e-4, 0.2], [nan, 0.2], [1e9]])
def test_what_writes_is_silent(ratios: list[float]) -> None:
    assert run_rule(make_evidence(ratios), "ND402") == ()


@pytest.mark.parametrize(
    "scale",
    [
        Scale(kind="learned", value=0.0),
        Scale(kind="learned", value=-1e-5),
        Scale(kind="learned", rms=1e-6, min=1e-6, max=1e-6),
    ],
)
def test_a_gate_that_is_still_closed_is_for_information(scale: Scale) -> None:
    finding = one(make_evidence([1e-6, 1e-6], branch_scale=scale), "ND402")
    assert finding.severity == "info" and "its learned scale is" in finding.message


@pytest.mark.parametrize(
    "scale", [Scale(kind="learned", value=0.5), Scale(kind="constant", value=1e-6)]
)
def test_other_scales_explain_nothing(scale: Scale) -> None:
    assert one(make_evidence([1e-6], branch_scale=scale), "ND402").severity == "warning"


def test_random_weights_are_for_information() -> None:
    assert one(make_evidence([1e-6], mode="random-init"), "ND402").severity == "info"


def test_the_threshold_can_be_set() -> None:
    assert run_rule(make_evidence([3e-6]), "ND402", update_ratio=1e-6) == ()
    assert one(make_evidence([0.05]), "ND402", update_ratio=0.1).value == 0.05
