from __future__ import annotations

from dataclasses import replace

import pytest

from normdiag.evidence.gains import Gain
from tests.rules.builders import evidence, make_measurement, norms, one, run_rule


def constant(counts: dict[int, int], *, padded: dict[int, int] | None = None, **norm_fields):
    """Layer -> constant tokens of 41."""
    made = norms(8, **norm_fields)
    inputs = {
        norm.id: make_measurement(
            1e-5,
            constant=counts.get(norm.layer, 0),
            padded_constant=(padded or {}).get(norm.layer, 0),
        )
        for norm in made
    }
    return evidence(norms=made, norm_inputs=inputs)


def test_inputs_that_vary_are_silent() -> None:
    assert run_rule(constant({}), "ND302") == ()


def test_a_constant_input_is_a_warning() -> None:
    finding = one(constant({3: 41}), "ND302")
    assert (finding.severity, finding.value, finding.threshold) == ("warning", 1.0, 0.1)
    assert finding.ids == ("layers.3.norm",)
    assert "41 of 41 tokens are constant" in finding.message
    assert "--site layers.3.norm" in finding.advice


def test_many_norms_are_folded_worst_first() -> None:
    finding = one(constant({3: 9, 4: 41, 5: 5}), "ND302")
    assert finding.ids == ("layers.4.norm", "layers.3.norm", "layers.5.norm")
    assert "3 norms, layers 3-5 of layers; worst layers.4.norm" in finding.message


def test_a_few_tokens_are_only_mentioned() -> None:
    warning, info = run_rule(constant({3: 5, 4: 4}), "ND302")
    assert (warning.severity, warning.ids) == ("warning", ("layers.3.norm",))
    assert (info.severity, info.ids, info.threshold) == ("info", ("layers.4.norm",), 0.0)


def test_the_share_can_be_set() -> None:
    assert one(constant({3: 5}), "ND302", share=0.2).severity == "info"
    assert one(constant({3: 1}), "ND302", share=0.01).threshold == 0.01


@pytest.mark.parametrize(
    ("kind", "unit"), [("groupnorm", "groups"), ("batchnorm", "channels"), ("rmsnorm", "tokens")]
)
def test_what_is_counted(kind: str, unit: str) -> None:
    assert f"4 of 41 {unit}" in one(constant({0: 4}, kind=kind), "ND302").message


def test_without_an_epsilon_it_is_an_error() -> None:
    finding = one(constant({0: 1}, eps=0.0), "ND302")
    assert finding.severity == "error" and "0/0 is NaN" in finding.message
    assert finding.advice.startswith("set epsilon")


def test_padding_is_only_mentioned() -> None:
    finding = one(constant({}, padded=dict.fromkeys(range(8), 3)), "ND302")
    assert (finding.severity, finding.value) == ("info", 3.0)
    assert "3 padded tokens" in finding.message and len(finding.ids) == 8


def test_padding_without_an_epsilon_is_an_error() -> None:
    finding = one(constant({}, padded={0: 3}, eps=0.0), "ND302")
    assert finding.severity == "error" and finding.value == 3.0
    assert "attention spreads it" in finding.message


def test_few_groups_are_named() -> None:
    made = norms(1, kind="groupnorm", eps=1e-5)
    seen = make_measurement(1e-5, tokens=16, constant=3, constant_indices=(2, 3, 11))
    finding = one(evidence(norms=made, norm_inputs={made[0].id: seen}), "ND302")
    assert "3 of 16 groups are constant" in finding.message
    assert finding.message.endswith("at layers.0.norm, groups 2, 3, 11")


def own(count: int, constant: int, **norm_fields):
    """A norm where so many of 9 tokens are constant, and so many of these are of parameters."""
    (norm,) = norms(1, **norm_fields)
    seen = make_measurement(1e-5, tokens=9, constant=constant, constant_without_input=count)
    return evidence(norms=(norm,), norm_inputs={norm.id: seen})


def test_tokens_of_parameters_alone_are_only_mentioned() -> None:
    finding = one(own(2, 2), "ND302")
    assert (finding.severity, finding.value) == ("info", 2 / 9)
    assert "2 of 9 tokens are constant and made of parameters alone" in finding.message


def test_they_do_not_count_among_those_of_the_input() -> None:
    warning, info = run_rule(own(2, 5), "ND302")
    assert (warning.severity, warning.value) == ("warning", 3 / 9)
    assert warning.message.startswith("3 of 9 tokens are constant (share 0.333")
    assert info.message.startswith("2 of 9 tokens")


def test_without_an_epsilon_they_are_an_error_too() -> None:
    finding = one(own(1, 1, eps=0.0), "ND302")
    assert finding.severity == "error" and "0/0 is NaN" in finding.message


def test_a_small_branch_of_an_untrained_model_is_only_mentioned() -> None:
    unit = Gain(rms=1.0, min_abs=1.0, max_abs=1.0, zeros=0, nonfinite=0)
    made = norms(2, role="branch-output", gain=unit)
    inputs = {norm.id: make_measurement(0.9999999, constant=30) for norm in made}
    assert one(evidence(norms=made, norm_inputs=inputs), "ND302").severity == "info"
    trained = tuple(replace(norm, bias_rms=0.01) for norm in made)
    assert one(evidence(norms=trained, norm_inputs=inputs), "ND302").severity == "warning"
