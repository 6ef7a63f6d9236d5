from __future__ import annotations

from math import nan

import pytest

from normdiag.evidence.evidence import Evidence
from tests import factories
from tests.rules.builders import evidence, norms, one, run_rule


def make_evidence(energies: list[float], **given) -> Evidence:
    """One norm per layer with these mean energies."""
    made = norms(len(energies), **{"kind": "layernorm", **given})
    return evidence(
        norms=made,
        norm_inputs={
            norm.id: factories.norm_measurement(mean_energy=energy)
            for norm, energy in zip(made, energies, strict=True)
        },
    )


def test_an_input_that_is_one_constant() -> None:
    finding = one(make_evidence([0.01, 0.95, 0.4]), "ND303")
    assert (finding.severity, finding.confidence) == ("warning", "high")
    assert (finding.value, finding.threshold) == (0.95, 0.9)
    assert finding.ids == ("layers.1.norm",)
    assert "95% of ||x||^2" in finding.message


def test_many_are_one_finding_the_worst_first() -> None:
    finding = one(make_evidence([0.95, 0.99, 0.98]), "ND303")
    assert finding.ids == ("layers.1.norm", "layers.2.norm", "layers.0.norm")
    assert "3 norms in all, layers 0-2 of layers" in finding.message


@pytest.mark.parametrize(
    "given",
    [
        {"kind": "rmsnorm"},  # keeps it
        {"kind": "groupnorm"},
        {"axes": (-2, -1)},
        {"features": 4},  # a large mean is chance
    ],
)
def test_what_does_not_centre_tokens_is_silent(given: dict) -> None:
    assert run_rule(make_evidence([0.99], **given), "ND303") == ()


@pytest.mark.parametrize("energy", [0.0, 0.37, 0.9, nan])
def test_what_keeps_most_is_silent(energy: float) -> None:
    assert run_rule(make_evidence([energy]), "ND303") == ()


def test_the_threshold_can_be_set() -> None:
    assert one(make_evidence([0.5]), "ND303", mean_energy=0.4).value == 0.5
