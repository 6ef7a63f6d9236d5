from __future__ import annotations

import pytest

from normdiag.evidence.evidence import Evidence
from tests import factories
from tests.rules.builders import evidence, norms, one, run_rule


def make_evidence(shares: list[float | None], **given) -> Evidence:
    """One norm per layer of whose input channel 7 holds these shares."""
    made = norms(len(shares), **given)
    return evidence(
        norms=made,
        norm_inputs={
            norm.id: factories.norm_measurement(channel_share=share, dominant_channel=7)
            for norm, share in zip(made, shares, strict=True)
        },
    )


def test_a_channel_that_is_nearly_all() -> None:
    finding = one(make_evidence([0.1, 0.994, 0.6]), "ND305")
    assert (finding.severity, finding.confidence) == ("warning", "high")
    assert (finding.value, finding.threshold) == (0.994, 0.99)
    assert finding.ids == ("layers.1.norm", "layers.2.norm")
    assert "channel 7 holds 99% of ||x||^2" in finding.message
    assert "2 norms in all, layers 1-2 of layers" in finding.message


def test_a_channel_that_is_most_is_for_information() -> None:
    finding = one(make_evidence([0.56]), "ND305")
    assert (finding.severity, finding.threshold) == ("info", 0.5)


@pytest.mark.parametrize("share", [0.02, 0.5, None])
def test_the_usual_is_silent(share: float | None) -> None:
    assert run_rule(make_evidence([share]), "ND305") == ()


def test_of_a_few_channels_one_is_large_by_chance() -> None:
    assert run_rule(make_evidence([0.95], features=8), "ND305") == ()


def test_the_thresholds_can_be_set() -> None:
    assert run_rule(make_evidence([0.56]), "ND305", share=0.6) == ()
    assert one(make_evidence([0.56]), "ND305", dominant=0.55).severity == "warning"
