"""A healthy trained model gets no warning for what trained models are; a fault in it gets one."""

from __future__ import annotations

import types
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
import torch
from torch import nn

import normdiag
from normdiag.measures import DEFAULT_MEASURES
from normdiag.report.report import Report
from tests.rules import gemma_like
from tests.rules.gemma_like import FEATURES, LOUD, PEAK, SINK

BRIEF = ("stream", "norms")
FULL = DEFAULT_MEASURES
EITHER = pytest.mark.parametrize(
    "measure", [BRIEF, pytest.param(FULL, marks=pytest.mark.slow)], ids=["brief", "full"]
)


@cache
def healthy(measure: tuple[str, ...]) -> Report:
    """The model with all features."""
    model, inputs = gemma_like.build(*FEATURES)
    return normdiag.inspect(model, inputs=inputs, measure=measure)


def loud(report: Report) -> list[tuple[str, str]]:
    return [(f.code, f.message) for f in report.findings if f.severity != "info"]


@EITHER
def test_no_warning_and_what_matters_for_use_as_info(measure: tuple[str, ...]) -> None:
    report = healthy(measure)
    assert loud(report) == []
    said = {finding.code: finding for finding in report.findings}
    of_jacobians = {"ND501"} if "jacobians" in measure else set()
    assert set(said) == {"ND201", "ND202", "ND304", "ND305", "ND701"} | of_jacobians
    assert "at model.layers.7/add#1, layer 7" in said["ND701"].message
    assert "9 sites in all, layers 7-11 of model.layers" in said["ND701"].message
    assert "bfloat16" in said["ND701"].advice
    assert said["ND304"].ids[0] == "model.layers.11/add#1"


def test_every_feature_is_there() -> None:
    """The figures that are reported of such a model, in the evidence."""
    report = healthy(BRIEF)
    norms = {norm.id: norm for norm in report.architecture.norms}
    assert [stack.placement for stack in report.architecture.stacks] == ["sandwich"]
    assert all(norm.bias_rms is None for norm in norms.values())
    q_gain = norms["model.layers.0.self_attn.q_norm"].gain
    assert q_gain is not None and (q_gain.dead, q_gain.offset) == (15, 1.0)
    peak = norms["model.layers.4.input_layernorm"].gain
    assert peak is not None and peak.max_channel == PEAK
    assert peak.max_abs == pytest.approx(153) and peak.median_abs == pytest.approx(0.89, rel=0.05)
    last = report.measurements.stream["model.layers.11/add#1"]
    assert (last.max_channel, last.max_token.position) == (SINK, 0)
    assert last.max_abs == pytest.approx(103_050, rel=1e-3)
    first = report.measurements.norms["model.layers.0.input_layernorm"]
    assert first.dominant_channel == LOUD and first.channel_share == pytest.approx(0.94, abs=0.005)


@pytest.mark.slow
def test_every_feature_of_the_jacobians_is_there() -> None:
    measured = healthy(FULL).measurements
    spread = measured.norms["model.layers.4.input_layernorm"].jacobian
    assert spread is not None and spread.kappa is not None and spread.kappa.median > 1e5
    gained = measured.norms["model.layers.6.post_attention_layernorm"].jacobian
    assert gained is not None and gained.sigma_max.median == pytest.approx(23_006, rel=0.05)
    for layer in (9, 10):
        block = measured.blocks[f"model.layers.{layer}/add#1"]
        kappas = sorted(token.kappa or 0.0 for token in block.tokens)
        assert len(kappas) == 4 and kappas[-1] > 7e5 and kappas[-2] < 1e5


def test_dead_gains_without_a_bias_do_not_hand_on_one() -> None:
    (finding,) = (f for f in healthy(BRIEF).findings if f.code == "ND201")
    assert "15 of 256 gains are dead" in finding.message
    assert finding.message.endswith("these channels output 0") and "bias" not in finding.message


def test_plain_hooks_see_the_same() -> None:
    """The massive activation, and the energy of one channel, in the model itself."""
    model, inputs = gemma_like.build(*FEATURES)
    seen: dict[int, torch.Tensor] = {}
    for number in (0, 11):
        model.model.layers[number].register_forward_hook(
            lambda module, args, out, number=number: seen.update(
                {number: (args[0].double(), out.double())[number > 0]}
            )
        )
    with torch.no_grad():
        model(**inputs)
    report = healthy(BRIEF)
    assert float(seen[11].abs().max()) == pytest.approx(
        report.measurements.stream["model.layers.11/add#1"].max_abs, rel=1e-6
    )
    assert seen[11].abs().argmax().item() == SINK  # sequence 0, position 0
    energy = seen[0].square()
    share = (energy[..., LOUD] / energy.sum(-1)).flatten().median()
    assert 0.93 < float(share) < 0.95


@pytest.mark.slow
@pytest.mark.parametrize("feature", [None, *FEATURES])
def test_each_feature_alone_gets_no_warning(feature: str | None) -> None:
    model, inputs = gemma_like.build(*filter(None, [feature]))
    assert loud(normdiag.inspect(model, inputs=inputs)) == []


def _lower_gain(model: nn.Module) -> None:
    weight = model.get_submodule("model.layers.5.pre_feedforward_layernorm").weight
    weight.copy_((1 + weight) * 0.003 - 1)


def _raise_one_epsilon(model: nn.Module) -> None:
    model.get_submodule("model.layers.5.input_layernorm").eps = 1.0


def _raise_all_epsilons(model: nn.Module) -> None:
    for module in model.modules():
        if hasattr(module, "eps"):
            module.eps = 1.0


def _leave_out_the_stream(model: nn.Module) -> None:
    """Layer 5 returns the sum of two branches without the stream."""

    def forward(self: Any, hidden_states: torch.Tensor, **given: Any) -> torch.Tensor:
        first, _ = self.self_attn(hidden_states=self.input_layernorm(hidden_states), **given)
        second = self.mlp(self.pre_feedforward_layernorm(hidden_states))
        return self.post_attention_layernorm(first) + self.post_feedforward_layernorm(second)

    layer: Any = model.get_submodule("model.layers.5")
    layer.forward = types.MethodType(forward, layer)


@pytest.mark.parametrize(
    ("fault", "code", "place"),
    [
        (_lower_gain, "ND206", "model.layers.5.pre_feedforward_layernorm"),
        (_raise_one_epsilon, "ND205", "model.layers.5.input_layernorm"),
        (_raise_all_epsilons, "ND301", "model.layers.0.post_attention_layernorm"),
        (_leave_out_the_stream, "ND001", "model.layers.5"),
    ],
)
def test_a_fault_in_the_same_model_is_a_warning(
    fault: Callable[[nn.Module], None], code: str, place: str
) -> None:
    model, inputs = gemma_like.build(*FEATURES)
    with torch.no_grad():
        fault(model)
    report = normdiag.inspect(model, inputs=inputs, measure=BRIEF)
    found = [f for f in report.findings if f.code == code and f.severity == "warning"]
    assert found, [(f.code, f.severity, f.message) for f in report.findings]
    assert place in found[0].ids
