from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from tests.rules.builders import evidence, judge_rule, make_measurement, norms, one, run_rule
from tests.rules.parameters.gains import ones, with_gains


def test_sound_gains_are_silent() -> None:
    assert run_rule(with_gains({}), "ND201") == ()
    assert run_rule(with_gains({2: ones(c3=1.1e-6)}), "ND201") == ()
    assert run_rule(with_gains({2: torch.full((64,), 1e-20)}), "ND201") == ()


def test_many_dead_channels_are_a_warning() -> None:
    gain = torch.ones(64)
    gain[:9] = 0
    finding = one(with_gains({3: gain}), "ND201")
    assert (finding.severity, finding.confidence) == ("warning", "high")
    assert (finding.value, finding.threshold) == (9 / 64, 0.125)
    assert finding.ids == ("layers.3.norm",)
    assert (
        "9 of 64 gains are dead (share 0.141, threshold 0.125) at layers.3.norm" in finding.message
    )
    assert "--site layers.3.norm" in finding.advice


def test_a_share_that_trained_models_have_is_no_warning() -> None:
    gain = torch.ones(64)
    gain[:4] = 0  # 15 of 256 in the q and k norms of a Gemma
    assert one(with_gains({3: gain}), "ND201").severity == "info"


@pytest.mark.parametrize(("bias_rms", "output"), [(None, "0"), (0.0, "0"), (0.3, "their bias")])
def test_without_a_bias_the_output_is_zero(bias_rms: float | None, output: str) -> None:
    seen = with_gains({3: ones(c0=0.0)})
    made = tuple(replace(norm, bias_rms=bias_rms) for norm in seen.architecture.norms)
    biased = replace(seen, architecture=replace(seen.architecture, norms=made))
    assert one(biased, "ND201").message.endswith(f"; these channels output {output}")


def test_one_of_many_is_mentioned() -> None:
    finding = one(with_gains({3: ones(c5=4.8e-33)}), "ND201", share=0.02)
    assert (finding.severity, finding.value) == ("info", 1 / 64)


def test_like_ones_fold_and_the_worst_comes_first() -> None:
    half = torch.ones(64)
    half[:32] = 0
    dead = {layer: ones(c0=0.0) for layer in (1, 2, 3)} | {5: half}
    finding = one(with_gains(dead), "ND201", share=0.01)
    assert finding.ids[0] == "layers.5.norm" and len(finding.ids) == 4
    assert "at 4 norms, layers 1-3 and 5 of layers; worst layers.5.norm" in finding.message


def test_a_norm_that_is_dead_altogether() -> None:
    assert one(with_gains({0: torch.zeros(64)}), "ND201").value == 1.0


def test_without_gains_it_does_not_pass() -> None:
    made = norms(2, gain=None)
    seen = evidence(norms=made, norm_inputs={norm.id: make_measurement(1e-5) for norm in made})
    (skip,) = judge_rule(seen, "ND201").skipped
    assert skip.why == "no norm has a gain"
