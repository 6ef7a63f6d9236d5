from __future__ import annotations

import math
from dataclasses import replace

import pytest

from normdiag.evidence.gains import Gain
from normdiag.evidence.norm_inputs import NormMeasurement
from normdiag.evidence.statistics import MedianMax
from tests.rules.builders import evidence, make_measurement, norms, one, run_rule


def shares(values: dict[int, float], layers: int = 32, **given):
    """Layer -> eps_share; 1e-5 elsewhere."""
    made = norms(layers, eps=1e-5)
    inputs = {norm.id: make_measurement(values.get(norm.layer, 1e-5)) for norm in made}
    return evidence(norms=made, norm_inputs=inputs, **given)


def test_healthy_norms_are_silent() -> None:
    assert run_rule(shares({}), "ND301") == ()
    assert run_rule(shares({3: 0.0999}), "ND301") == ()


def test_one_norm() -> None:
    finding = one(shares({0: 0.999}), "ND301")
    assert (finding.severity, finding.confidence) == ("warning", "high")
    assert finding.ids == ("layers.0.norm",)
    assert (finding.value, finding.threshold) == (0.999, 0.5)
    assert "0.999" in finding.message and "threshold 0.5" in finding.message
    assert "eps 1e-05, m2 1.00e-8" in finding.message
    assert "--site layers.0.norm" in finding.advice and "rms_norm_eps" in finding.advice


def test_many_layers_are_folded_worst_first() -> None:
    finding = one(shares({layer: 0.6 + layer / 100 for layer in range(3, 32)}), "ND301")
    assert len(finding.ids) == 29 and finding.ids[0] == "layers.31.norm"
    assert "29 norms, layers 3-31 of layers; worst layers.31.norm" in finding.message


def test_a_smaller_share_is_mentioned() -> None:
    warning, info = run_rule(shares({1: 0.7, 2: 0.3}), "ND301")
    assert (warning.severity, warning.ids) == ("warning", ("layers.1.norm",))
    assert (info.severity, info.ids, info.threshold) == ("info", ("layers.2.norm",), 0.1)


def only(seen: NormMeasurement, **norm_fields):
    (norm,) = norms(1, **norm_fields)
    return evidence(norms=(norm,), norm_inputs={norm.id: seen})


def test_the_typical_token_decides_and_not_the_worst() -> None:
    seen = replace(make_measurement(0.01), eps_share=MedianMax(median=0.01, max=1.0))
    assert run_rule(only(seen), "ND301") == ()


def test_what_is_not_a_number_is_no_finding() -> None:
    """0/0 where epsilon and the input are zero: that is ND302's finding."""
    seen = replace(make_measurement(0.5), eps_share=MedianMax(median=math.nan, max=math.nan))
    assert run_rule(only(seen, eps=0.0), "ND301") == ()


@pytest.mark.parametrize(("constant", "findings"), [(41, 0), (21, 0), (20, 1)])
def test_a_constant_input_is_the_finding_of_another_rule(constant: int, findings: int) -> None:
    assert len(run_rule(only(make_measurement(0.9999999, constant=constant)), "ND301")) == findings


def test_each_run_of_a_shared_norm_is_its_own_site() -> None:
    calls = tuple(replace(norm, id=f"block.norm@{norm.layer}") for norm in norms(4))
    inputs = {norm.id: make_measurement(0.9 if norm.layer == 0 else 1e-6) for norm in calls}
    finding = one(evidence(norms=calls, norm_inputs=inputs), "ND301")
    assert finding.ids == ("block.norm@0",)


def at_some(dominated: int, constant: int = 0, share: float = 1e-5, **given):
    """20 tokens of layer 3; of so many epsilon is the larger term, and so many are constant."""
    made = norms(8, eps=1e-5, **given)
    inputs = {
        norm.id: make_measurement(share if norm.layer == 3 else 1e-5, tokens=20) for norm in made
    }
    odd = inputs["layers.3.norm"]
    inputs["layers.3.norm"] = replace(odd, eps_dominated=dominated, constant=constant)
    return evidence(norms=made, norm_inputs=inputs)


def test_many_tokens_count_whatever_the_median() -> None:
    assert run_rule(at_some(2), "ND301") == ()
    finding = one(at_some(5), "ND301")
    assert (finding.severity, finding.value, finding.threshold) == ("warning", 0.25, 0.1)
    assert "epsilon is the larger term at 5 of 20 tokens (share 0.25" in finding.message
    assert "at layers.3.norm: eps 1e-05, smallest m2" in finding.message


def test_groups_are_called_groups() -> None:
    assert "4 of 20 groups" in one(at_some(4, kind="groupnorm"), "ND301").message


def test_constant_tokens_are_the_finding_of_another_rule() -> None:
    assert run_rule(at_some(5, constant=5), "ND301") == ()
    assert run_rule(at_some(20, constant=12, share=0.99), "ND301") == ()


def test_a_norm_is_told_of_once() -> None:
    assert "median over tokens" in one(at_some(20, share=0.9), "ND301").message
    assert "at 6 of 20 tokens" in one(at_some(6, share=0.2), "ND301").message


UNIT = Gain(rms=1.0, min_abs=1.0, max_abs=1.0, zeros=0, nonfinite=0)


def test_branches_of_an_untrained_model_are_only_mentioned() -> None:
    """The stream's own norm stays a warning."""
    made = norms(3, eps=1e-5, gain=UNIT, role="branch-output")
    made = (replace(made[0], role="branch-input"), *made[1:])
    inputs = {norm.id: make_measurement(0.9) for norm in made[:2]}
    some = replace(make_measurement(1e-5, tokens=20), eps_dominated=5)
    inputs[made[2].id] = some
    warning, info, many = run_rule(evidence(norms=made, norm_inputs=inputs), "ND301")
    assert (warning.severity, warning.ids) == ("warning", ("layers.0.norm",))
    assert "expected if the model is untrained" not in warning.message
    assert (info.severity, info.ids) == ("info", ("layers.1.norm",))
    assert (many.severity, many.ids) == ("info", ("layers.2.norm",))
    for each in (info, many):
        assert each.message.endswith(
            "every gain is 1 and every bias 0: expected if the model is untrained"
        )
