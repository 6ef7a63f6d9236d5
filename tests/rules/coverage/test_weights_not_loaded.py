from __future__ import annotations

import pytest

from normdiag.evidence.subject import Loading, StoredTwice
from tests import factories
from tests.rules.builders import evidence, judge_rule, norms, one, run_rule, stack

FINAL = factories.norm("model.norm", "final")


def make_loading(norms=(FINAL,), stacks=(), mode: str = "run", **given):
    loading = Loading(**given)
    return evidence(subject={"loading": loading, "mode": mode}, norms=norms, stacks=stacks)


def test_a_checkpoint_that_fits_is_silent() -> None:
    assert run_rule(make_loading(), "ND003") == ()


def test_a_missing_gain_is_an_error_that_names_it() -> None:
    name = "model.norm.weight"
    finding = one(make_loading(missing=(name,), norm_parameters=(name,)), "ND003")
    assert (finding.severity, finding.confidence) == ("error", "high")
    assert finding.ids == (name,) and name in finding.message
    assert "newly initialised" in finding.message and finding.value == 1.0


@pytest.mark.parametrize(
    ("site", "parameter"),
    [
        ("encoder.layer.norm@3", "encoder.layer.norm.bias"),
        ("stack.0/norm#1", "stack.0.g1"),
    ],
)
def test_norms_that_run_often_or_without_a_module(site: str, parameter: str) -> None:
    seen = make_loading((factories.norm(site),), missing=(parameter,), norm_parameters=(parameter,))
    assert one(seen, "ND003").severity == "error"


def test_a_bias_that_is_no_norms_is_a_warning() -> None:
    bias = "classifier.bias"
    finding = one(
        make_loading(missing=(bias, "classifier.weight"), norm_parameters=(bias,)), "ND003"
    )
    assert finding.severity == "warning" and finding.ids == (bias, "classifier.weight")


def test_shapes_that_differ() -> None:
    name = "model.norm.weight"
    finding = one(make_loading(mismatched=(name,), norm_parameters=(name,)), "ND003")
    assert finding.severity == "error" and "of another shape" in finding.message


def test_heads_that_are_left_over_are_information() -> None:
    names = ("cls.predictions.bias", "cls.predictions.decoder.weight")
    finding = one(make_loading(unexpected=names, norm_parameters=names[:1]), "ND003")
    assert finding.severity == "info" and finding.ids == names


def test_a_gain_left_over_inside_a_layer_that_ran_is_a_warning() -> None:
    inside, behind = "layers.3.q_norm.weight", "layers.4.q_norm.weight"
    names = (inside, behind)
    warning, info = run_rule(
        make_loading(stacks=(stack(4),), unexpected=names, norm_parameters=names), "ND003"
    )
    assert (warning.severity, warning.ids) == ("warning", (inside,))
    assert (info.severity, info.ids) == ("info", (behind,))


def test_layers_that_the_configuration_does_not_build_are_a_warning() -> None:
    names = ("head.weight", "layers.4.fc.weight", "layers.4.norm.weight", "layers.40.fc.weight")
    warning, info = run_rule(make_loading(unexpected=names, unbuilt_layers=("layers.4",)), "ND003")
    assert (warning.severity, warning.ids) == ("warning", names[1:3])
    assert "2 parameters of 1 layer that the configuration does not build" in warning.message
    assert (info.severity, info.ids) == ("info", (names[0], names[3]))


def test_names_that_were_cut_are_a_warning_that_names_the_part() -> None:
    finding = one(make_loading(cut=("_orig_mod.",), renamed=39), "ND003")
    assert (finding.severity, finding.value) == ("warning", 39.0)
    assert "39 stored names carry _orig_mod. in front or inside" in finding.message
    assert "remove _orig_mod. from" in finding.advice


def test_a_tensor_stored_twice_is_an_error_that_names_both_files() -> None:
    twice = StoredTwice(tensor="model.norm.weight", files=("a.safetensors", "b.safetensors"))
    finding = one(make_loading(stored_twice=(twice,)), "ND003")
    assert (finding.severity, finding.ids) == ("error", ("model.norm.weight",))
    assert "model.norm.weight (a.safetensors, b.safetensors)" in finding.message
    alone = one(make_loading(stored_twice=(twice,), mode="weights-only"), "ND003")
    assert alone.message == finding.message


def test_norms_and_the_rest_are_told_apart() -> None:
    seen = make_loading(
        norms(2),
        missing=("layers.0.norm.weight", "layers.1.norm.weight", "head.weight"),
        norm_parameters=("layers.0.norm.weight", "layers.1.norm.weight"),
    )
    error, warning = run_rule(seen, "ND003")
    assert error.value == 2.0 and len(error.ids) == 2
    assert warning.ids == ("head.weight",)


@pytest.mark.parametrize("mode", ["random-init", "structure-only"])
def test_without_a_checkpoint_it_is_skipped(mode: str) -> None:
    judgement = judge_rule(make_loading(mode=mode), "ND003")
    assert judgement.passed == () and len(judgement.skipped) == 1
