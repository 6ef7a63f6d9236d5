from __future__ import annotations

from dataclasses import replace

import pytest

from normdiag.evidence.gains import Gain
from normdiag.evidence.statistics import MedianMax
from tests.rules.builders import evidence, judge_rule, make_measurement, norms, one, run_rule

DEAD = Gain(rms=0.6, min_abs=4.8e-33, max_abs=0.8, zeros=0, nonfinite=0, dead=3)


def kappas(values: dict[int, float | None], **given):
    """Layer -> median kappa; 5 elsewhere."""
    made = norms(8, **given)
    inputs = {}
    for norm in made:
        seen, kappa = make_measurement(1e-5), values.get(norm.layer, 5.0)
        worst = None if kappa is None else MedianMax(median=kappa, max=2 * kappa)
        inputs[norm.id] = replace(seen, jacobian=replace(seen.jacobian, kappa=worst))
    return evidence(norms=made, norm_inputs=inputs)


@pytest.mark.parametrize(
    ("kappa", "severity"),
    [(256.0, None), (257.0, "info"), (103904.0, "info"), (2.04e6, "info"), (None, None)],
)
def test_the_borders(kappa: float | None, severity: str | None) -> None:
    findings = run_rule(kappas({3: kappa}), "ND501")
    assert [finding.severity for finding in findings] == ([severity] if severity else [])


def test_what_is_said() -> None:
    finding = one(kappas({3: 600000.0, 4: 550000.0}), "ND501")
    assert (finding.value, finding.threshold) == (600000.0, 256)
    assert finding.ids == ("layers.3.norm", "layers.4.norm")
    assert "kappa 6.00e5 (median over tokens, threshold 256)" in finding.message
    assert "2 norms, layers 3-4 of layers; worst layers.3.norm" in finding.message


def test_dead_gains_are_the_finding_of_another_rule() -> None:
    assert run_rule(kappas({3: 7.2e8}, gain=DEAD), "ND501") == ()


def test_without_jacobians_it_does_not_pass() -> None:
    made = norms(2)
    bare = {norm.id: replace(make_measurement(1e-5), jacobian=None) for norm in made}
    (skip,) = judge_rule(evidence(norms=made, norm_inputs=bare), "ND501").skipped
    assert "'norm-jacobians' to --measure" in skip.why
