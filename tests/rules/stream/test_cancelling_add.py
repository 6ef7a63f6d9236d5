from __future__ import annotations

from math import nan

import pytest

from normdiag.evidence.evidence import Evidence
from tests import factories
from tests.factories import typical
from tests.rules.builders import evidence, make_adds, one, run_rule, stack

HEALTHY = (1.05, 0.1)


def make_evidence(*seen: tuple[float, float]) -> Evidence:
    """One add per layer with these medians of ||y|| / ||x|| and cos(x, u)."""
    made = make_adds(len(seen))
    return evidence(
        stacks=(stack(len(seen)),),
        adds=made,
        stream={
            add.id: factories.add_measurement(out_ratio=typical(left), cosine=typical(cosine))
            for add, (left, cosine) in zip(made, seen, strict=True)
        },
    )


def test_a_branch_that_takes_the_stream_off() -> None:
    finding = one(make_evidence(HEALTHY, (0.1, -0.995), HEALTHY), "ND404")
    assert (finding.severity, finding.confidence) == ("warning", "high")
    assert (finding.value, finding.threshold) == (0.1, 0.25)
    assert finding.ids == ("layers.1/add#0",)
    assert "||y|| / ||x|| is 0.100" in finding.message
    assert "cos(x, u) is -0.995, 3 bits of every value are lost" in finding.message


def test_nothing_is_left() -> None:
    finding = one(make_evidence((0.0, -1.0)), "ND404")
    assert finding.value == 0.0 and "bits" not in finding.message


def test_many_are_one_finding_the_worst_first() -> None:
    finding = one(make_evidence((0.2, -0.97), HEALTHY, (0.1, -0.99)), "ND404")
    assert finding.ids == ("layers.2/add#0", "layers.0/add#0")
    assert "2 adds in all, layers 0 and 2 of layers" in finding.message


@pytest.mark.parametrize(
    "seen",
    [
        HEALTHY,
        (0.25, -0.99),
        (0.2, -0.9),
        (0.2, -0.5),  # one large direction is taken out
        (0.9, -0.99),
        (nan, nan),
    ],
)
def test_what_is_no_cancellation_is_silent(seen: tuple[float, float]) -> None:
    assert run_rule(make_evidence(seen), "ND404") == ()


def test_a_report_without_the_ratio_is_silent() -> None:
    made = make_adds(1)
    seen = {made[0].id: factories.add_measurement(cosine=typical(-0.99))}
    assert run_rule(evidence(stacks=(stack(1),), adds=made, stream=seen), "ND404") == ()


def test_the_thresholds_can_be_set() -> None:
    assert run_rule(make_evidence((0.2, -0.97)), "ND404", out_ratio=0.1) == ()
    assert one(make_evidence((0.2, -0.8)), "ND404", cosine=-0.7).value == 0.2
