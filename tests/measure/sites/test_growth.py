"""What is said beside the law of growth: pace, sinks, and the yardstick at initialisation."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from torch import nn
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

import normdiag
from normdiag.errors import LoadError
from normdiag.loading import reinitialised
from normdiag.loading.reinitialised import reinitialise_model

SMALL = {
    "hidden_size": 32,
    "num_hidden_layers": 3,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "intermediate_size": 48,
    "vocab_size": 64,
}


def make_trained_model(seed: int = 1) -> LlamaForCausalLM:
    """A Llama whose weights are five times as large as those of a new one."""
    torch.manual_seed(seed)
    model = LlamaForCausalLM(LlamaConfig(**SMALL)).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.mul_(5)
    return model


def out_norms(model: nn.Module, ids: torch.Tensor) -> list[np.ndarray]:
    """||y|| per sequence and token after every add of a Llama."""
    seen: list[torch.Tensor] = []
    hooks = []
    for layer in model.model.layers:
        after = layer.post_attention_layernorm
        hooks.append(after.register_forward_pre_hook(lambda m, args: seen.append(args[0])))
        hooks.append(layer.register_forward_hook(lambda m, args, y: seen.append(y)))
    with torch.no_grad():
        model(ids)
    for hook in hooks:
        hook.remove()
    return [t.double().norm(dim=-1).numpy() for t in seen]


class TestYardstick:
    def test_it_is_the_growth_of_newly_drawn_weights(self) -> None:
        model, ids = make_trained_model(), torch.randint(64, (3, 20))
        report = normdiag.inspect(model, inputs={"input_ids": ids}, measure=("stream",), seed=7)
        (growth,) = report.measurements.growth.values()
        torch.manual_seed(7)
        norms = out_norms(LlamaForCausalLM(LlamaConfig(**SMALL)).eval(), ids[:1])
        expected = norms[-1][:, 1:].mean() / norms[0][:, 1:].mean()
        assert growth.init_total == pytest.approx(expected, rel=1e-5)
        assert growth.total_over_init == pytest.approx(growth.total / expected, rel=1e-5)
        assert growth.init_note is None

    def test_every_add_has_the_norm_of_newly_drawn_weights(self) -> None:
        """By plain hooks on a second model, on 64 of the 70 tokens of the first sequence."""
        model, ids = make_trained_model(), torch.randint(64, (2, 70))
        report = normdiag.inspect(model, inputs={"input_ids": ids}, measure=("stream",), seed=5)
        (growth,) = report.measurements.growth.values()
        torch.manual_seed(5)
        norms = out_norms(LlamaForCausalLM(LlamaConfig(**SMALL)).eval(), ids[:1, :64])
        expected = [float(norm[:, 1:].mean()) for norm in norms]
        assert list(growth.init_norms) == [add.id for add in report.architecture.residual_adds]
        assert list(growth.init_norms.values()) == pytest.approx(expected, rel=1e-5)
        trained = [report.measurements.stream[id].out_norm.mean for id in growth.init_norms]
        assert trained != pytest.approx(expected, rel=0.5)

    def test_the_model_and_the_random_state_are_left_alone(self) -> None:
        model = make_trained_model()
        before, config = copy.deepcopy(model.state_dict()), model.config.to_dict()
        state = torch.get_rng_state()
        made = reinitialise_model(model, 0)
        assert torch.equal(torch.get_rng_state(), state)
        assert model.config.to_dict() == config
        for name, value in model.state_dict().items():
            assert torch.equal(value, before[name])
        assert made is not model and not made.training
        assert made.config is not model.config

    def test_it_has_the_precision_of_the_model_or_half_of_it_where_that_is_large(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for dtype in (torch.float32, torch.float16):
            assert reinitialise_model(make_trained_model().to(dtype), 0).dtype == dtype
        monkeypatch.setattr(reinitialised, "BFLOAT16_THRESHOLD_BYTES", 1000)
        assert reinitialise_model(make_trained_model(), 0).dtype == torch.bfloat16
        assert reinitialise_model(make_trained_model().to(torch.float16), 0).dtype == torch.float16

    def test_in_half_of_it_the_growth_is_the_same(self, monkeypatch: pytest.MonkeyPatch) -> None:
        model, inputs = make_trained_model(), {"input_ids": torch.randint(64, (1, 60))}

        def init_total() -> float:
            seen = normdiag.inspect(model, inputs=inputs, measure=("stream",))
            (growth,) = seen.measurements.growth.values()
            assert growth.init_total is not None
            return growth.init_total

        whole = init_total()
        monkeypatch.setattr(reinitialised, "BFLOAT16_THRESHOLD_BYTES", 1000)
        assert init_total() == pytest.approx(whole, rel=2e-3)

    def test_where_nothing_tells_how_to_build_it_the_reason_is_given(self) -> None:
        class Block(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.fc = nn.Linear(8, 8)

            def forward(self, x):
                return x + self.fc(x)

        model = nn.Sequential(Block(), Block())
        report = normdiag.inspect(model, inputs=(torch.randn(1, 4, 8),), measure=("stream",))
        (growth,) = report.measurements.growth.values()
        assert (growth.init_total, growth.total_over_init) == (None, None)
        assert growth.init_note == "the model has no transformers configuration to build it from"
        assert growth.init_norms == {}
        assert report.coverage.skipped == ()

    def test_no_second_set_of_large_weights(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(reinitialised, "MAX_PARAMETER_BYTES", 1000)
        with pytest.raises(LoadError, match="too large"):
            reinitialise_model(make_trained_model(), 0)

    def test_random_weights_are_their_own_yardstick(self, tmp_path) -> None:
        LlamaConfig(**SMALL, architectures=["LlamaForCausalLM"]).save_pretrained(tmp_path)
        report = normdiag.inspect(str(tmp_path), random_init=True, measure=("stream",))
        (growth,) = report.measurements.growth.values()
        assert growth.init_total == growth.total and growth.total_over_init == 1.0
        assert growth.init_norms == {}


def test_first_tokens_against_the_others() -> None:
    torch.manual_seed(0)
    config = GPT2Config(n_layer=2, n_embd=32, n_head=2, vocab_size=64, n_positions=32)
    model = GPT2LMHeadModel(config).eval()
    with torch.no_grad():
        model.transformer.wpe.weight[0] *= 50
    ids = torch.randint(64, (3, 12))
    outs: list[torch.Tensor] = []
    hooks = []
    for block in model.transformer.h:
        hooks.append(block.ln_2.register_forward_pre_hook(lambda m, a: outs.append(a[0])))
        hooks.append(block.register_forward_hook(lambda m, a, y: outs.append(y)))
    with torch.no_grad():
        model(ids)
    for hook in hooks:
        hook.remove()
    measured = normdiag.inspect(model, inputs={"input_ids": ids}, measure=("stream",)).measurements
    expected = []
    for y in outs:
        norms = y.double().norm(dim=-1)
        expected.append(float(norms[:, 0].mean() / norms[:, 1:].mean()))
    measured_growth = [add.sink_ratio for add in measured.stream.values()]
    np.testing.assert_allclose(measured_growth, expected, rtol=1e-5)
    (growth,) = measured.growth.values()
    assert growth.sink_ratio == max(measured_growth) > 10


class Writes(nn.Module):
    """x + W x with W a rotation into new axes, or a multiple of the stream."""

    def __init__(self, weight: torch.Tensor) -> None:
        super().__init__()
        self.fc = nn.Linear(len(weight), len(weight), bias=False)
        self.fc.weight = nn.Parameter(weight)

    def forward(self, x):
        return x + self.fc(x)


def scaled_ratio(weights: list[torch.Tensor], x: torch.Tensor) -> float | None:
    model = nn.Sequential(*map(Writes, weights)).double()
    seen = normdiag.inspect(model, inputs=(x,), measure=("stream",)).measurements
    return next(iter(seen.growth.values())).update_ratio_sqrt_depth


def test_equal_independent_writes_keep_the_pace_of_one() -> None:
    """Each add copies the first axis to a new one: r_l = 1 / sqrt(l + 1)."""
    weights = []
    for axis in range(1, 41):
        weight = torch.zeros(64, 64)
        weight[axis, 0] = 1
        weights.append(weight)
    x = torch.zeros(1, 4, 64, dtype=torch.float64)
    x[..., 0] = 1
    ratios = [(axis / (axis + 1)) ** 0.5 for axis in range(20, 40)]
    assert scaled_ratio(weights, x) == pytest.approx(np.median(ratios), rel=1e-9)


def test_writes_in_proportion_are_not_diluted() -> None:
    weights = [0.3 * torch.eye(16)] * 9
    expected = 0.3 * np.median(np.sqrt([4, 5, 6, 7, 8]))
    assert scaled_ratio(weights, torch.randn(1, 4, 16).double()) == pytest.approx(
        expected, rel=1e-6
    )


def test_two_adds_have_no_pace() -> None:
    assert scaled_ratio([0.3 * torch.eye(16)] * 2, torch.randn(1, 4, 16).double()) is None
