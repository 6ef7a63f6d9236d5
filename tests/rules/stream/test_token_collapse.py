from __future__ import annotations

from math import nan

import pytest

from normdiag.evidence.evidence import Evidence
from normdiag.evidence.layers import LayerMeasurement
from tests import factories
from tests.rules.builders import evidence, make_adds, one, run_rule, stack


def make_evidence(cosines: list[float | None], rank: float | None = 1.2) -> Evidence:
    """One add per layer with these mean cosines between tokens."""
    layers = len(cosines)
    made = make_adds(layers)
    last = LayerMeasurement(
        stack="layers",
        layer=layers - 1,
        tokens=64,
        block_influence=0.0,
        angular_distance=0.0,
        effective_rank=rank,
        stable_rank=1.0,
    )
    return evidence(
        stacks=(stack(layers),),
        adds=made,
        stream={
            add.id: factories.add_measurement(token_cosine=cosine)
            for add, cosine in zip(made, cosines, strict=True)
        },
        layers={f"layers/layer#{layers - 1}": last},
    )


def test_tokens_that_have_become_one() -> None:
    finding = one(make_evidence([0.1, 0.7, 0.995, 0.9999]), "ND405")
    assert (finding.severity, finding.confidence) == ("warning", "high")
    assert (finding.value, finding.threshold) == (0.9999, 0.99)
    assert finding.ids == ("layers.2/add#0", "layers.3/add#0")
    assert "above it from layers.2/add#0 (layer 2) on" in finding.message
    assert "effective rank 1.200 of 64 tokens" in finding.message


def test_without_a_rank_the_cosine_is_enough() -> None:
    assert "rank" not in one(make_evidence([0.1, 0.999], rank=None), "ND405").message


@pytest.mark.parametrize(
    "cosines",
    [
        [0.1, 0.3, 0.5, 0.69],  # SmolLM2
        [0.1, 0.999, 0.999, 0.5],  # they come apart again
        [0.1] * 9 + [0.995],  # a few channels of the last layer, as in GPT-2
        [0.1, 0.99],
        [0.1, nan],
        [None, None],  # sequences of one token
    ],
)
def test_tokens_that_are_apart_are_silent(cosines: list[float | None]) -> None:
    assert run_rule(make_evidence(cosines), "ND405") == ()


def test_tokens_that_are_alike_from_the_start_may_be_the_probes() -> None:
    finding = one(make_evidence([0.999, 0.999]), "ND405")
    assert (finding.severity, finding.confidence) == ("info", "medium")
    assert "; from the first add on" in finding.message


def test_the_threshold_can_be_set() -> None:
    assert run_rule(make_evidence([0.1, 0.995]), "ND405", token_cosine=0.999) == ()
    assert one(make_evidence([0.1, 0.95]), "ND405", token_cosine=0.9).value == 0.95
