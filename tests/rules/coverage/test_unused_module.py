from __future__ import annotations

import pytest

from normdiag.evidence.coverage import Coverage, UnusedModule
from normdiag.evidence.evidence import Evidence
from tests.rules.builders import evidence, judge_rule, one, run_rule, stack


def unused(module: str = "layers.2.ln2", **given) -> UnusedModule:
    fields = {
        "parameters": 128,
        "stack": "layers",
        "layer": 2,
        "is_choice": False,
        "is_norm": True,
        "runs_elsewhere": False,
    }
    return UnusedModule(module=module, **{**fields, **given})


def with_unused(*modules: UnusedModule) -> Evidence:
    return evidence(stacks=(stack(),), coverage=Coverage(unused_modules=modules))


def test_a_model_that_runs_whole_is_silent() -> None:
    assert run_rule(with_unused(), "ND005") == ()


def test_a_norm_of_a_layer_is_a_warning() -> None:
    finding = one(with_unused(unused()), "ND005")
    assert finding.message == "layers.2.ln2 did not run (128 parameters)"
    assert (finding.severity, finding.ids, finding.value) == ("warning", ("layers.2.ln2",), 1.0)


def test_the_same_norm_of_several_layers_is_named_once() -> None:
    modules = [unused(f"layers.{layer}.ln2", layer=layer) for layer in range(4)]
    finding = one(with_unused(*modules), "ND005")
    assert finding.message == "4 modules, layers.*.ln2 (4), did not run (512 parameters)"


@pytest.mark.parametrize(
    ("given", "severity"),
    [
        ({"is_norm": False}, "info"),  # cross-attention that no layer runs
        ({"is_norm": False, "runs_elsewhere": True}, "warning"),
        ({"is_choice": True}, "info"),  # experts
        ({"stack": None, "layer": None}, "info"),  # a pooler
        ({"layer": None, "is_norm": False, "runs_elsewhere": True}, "warning"),  # a whole layer
    ],
)
def test_how_severe_it_is(given: dict, severity: str) -> None:
    assert one(with_unused(unused(**given)), "ND005").severity == severity


def test_a_norm_goes_with_the_attention_that_does_not_run_either() -> None:
    attention = unused("layers.2.cross", is_norm=False)
    assert one(with_unused(unused(), attention), "ND005").severity == "info"
    elsewhere = unused("layers.3.cross", is_norm=False, layer=3)
    severities = {f.severity for f in run_rule(with_unused(unused(), elsewhere), "ND005")}
    assert severities == {"warning", "info"}


def test_without_a_forward_nothing_is_claimed() -> None:
    judgement = judge_rule(evidence(subject={"mode": "weights-only"}), "ND005")
    assert judgement.findings == () == judgement.passed
