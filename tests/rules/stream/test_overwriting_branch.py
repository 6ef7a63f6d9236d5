from __future__ import annotations

from math import inf, nan

import pytest

from normdiag.evidence.evidence import Evidence
from tests import factories
from tests.rules.builders import evidence, make_adds, one, run_rule, stack


def make_evidence(ratios: list[float]) -> Evidence:
    """One add per layer with these median update ratios."""
    made = make_adds(len(ratios))
    return evidence(
        stacks=(stack(len(ratios)),),
        adds=made,
        stream={
            add.id: factories.add_measurement(update=ratio)
            for add, ratio in zip(made, ratios, strict=True)
        },
    )


def test_a_branch_that_drowns_the_stream() -> None:
    finding = one(make_evidence([0.5, 0.5, 20.0, 0.1]), "ND403")
    assert (finding.severity, finding.confidence) == ("warning", "high")
    assert (finding.value, finding.threshold) == (20.0, 10.0)
    assert finding.ids == ("layers.2/add#0",)
    assert "||u|| / ||x|| is 20.0" in finding.message
    assert "x holds 0.25% of the energy of the sum" in finding.message  # 1 / 401


def test_many_are_one_finding_the_largest_first() -> None:
    finding = one(make_evidence([0.5, 12.0, 50.0, inf]), "ND403")
    assert finding.ids == ("layers.3/add#0", "layers.2/add#0", "layers.1/add#0")
    assert "3 adds in all, layers 1-3 of layers" in finding.message


@pytest.mark.parametrize("ratios", [[100.0, 1.0, 0.3], [1.0, 2.8], [1.0, 10.0], [1.0, nan]])
def test_what_makes_the_stream_or_adds_to_it_is_silent(ratios: list[float]) -> None:
    assert run_rule(make_evidence(ratios), "ND403") == ()


def test_the_threshold_can_be_set() -> None:
    assert one(make_evidence([1.0, 4.0]), "ND403", update_ratio=3).value == 4.0
    assert run_rule(make_evidence([1.0, 40.0]), "ND403", update_ratio=50) == ()
