"""Contributions against plain hooks and float64: GPT-2, scaled skips, and where nothing adds up."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

import normdiag


class Layer(nn.Module):
    """a x + W x, or with a norm on the sum."""

    def __init__(self, width: int, skip: float | nn.Parameter, is_normed: bool) -> None:
        super().__init__()
        self.fc = nn.Linear(width, width, bias=False)
        self.skip = skip
        self.norm = nn.LayerNorm(width) if is_normed else nn.Identity()

    def forward(self, x):
        return self.norm(self.skip * x + self.fc(x))


class Model(nn.Module):
    def __init__(self, skips: list, width: int = 8, is_normed: bool = False) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Layer(width, skip, is_normed) for skip in skips)

    def forward(self, inputs_embeds):
        for layer in self.layers:
            inputs_embeds = layer(inputs_embeds)
        return inputs_embeds


def shares(parts: list[torch.Tensor]) -> tuple[list[float], list[float]]:
    """Signed and energy shares of parts (tokens, features) in their sum, the first token left out;
    means over tokens."""
    kept = [part[1:].double().numpy() for part in parts]
    end = sum(kept)
    signed = [float(((p * end).sum(-1) / (end * end).sum(-1)).mean()) for p in kept]
    energies = np.array([(p * p).sum(-1) for p in kept])
    return signed, list((energies / energies.sum(0)).mean(-1))


def assert_shares(measured, parts: list[torch.Tensor], rtol: float) -> None:
    (growth,) = measured.growth.values()
    found = [growth.initial_contribution, *(add.contribution for add in measured.stream.values())]
    signed, energy = shares(parts)
    np.testing.assert_allclose([c.signed for c in found], signed, rtol=rtol, atol=rtol / 100)
    np.testing.assert_allclose([c.energy for c in found], energy, rtol=rtol)
    assert {c.tokens for c in found} == {len(parts[0]) - 1}
    np.testing.assert_allclose(sum(c.signed for c in found), 1, rtol=1e-4)
    np.testing.assert_allclose(sum(c.energy for c in found), 1, rtol=1e-12)


def test_every_write_of_gpt2() -> None:
    torch.manual_seed(0)
    config = GPT2Config(n_layer=4, n_embd=32, n_head=2, vocab_size=64, n_positions=80)
    model = GPT2LMHeadModel(config).eval().double()
    ids = torch.randint(64, (1, 24))
    parts: list[torch.Tensor] = []
    hooks = [model.transformer.drop.register_forward_hook(lambda m, a, y: parts.append(y[0]))]
    for block in model.transformer.h:
        hooks.append(block.attn.register_forward_hook(lambda m, a, y: parts.append(y[0][0])))
        hooks.append(block.mlp.register_forward_hook(lambda m, a, y: parts.append(y[0])))
    with torch.no_grad():
        model(ids)
    for hook in hooks:
        hook.remove()
    measured = normdiag.inspect(model, inputs={"input_ids": ids}, measure=("stream",)).measurements
    assert len(measured.stream) == 8
    assert_shares(measured, parts, 1e-9)


def test_only_the_first_tokens_of_the_first_sequence_count() -> None:
    torch.manual_seed(0)
    config = LlamaConfig(
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=2,
        intermediate_size=48,
        vocab_size=64,
    )
    model = LlamaForCausalLM(config).eval()
    ids = torch.randint(64, (2, 90))

    def start(inputs: torch.Tensor):
        seen = normdiag.inspect(model, inputs={"input_ids": inputs}, measure=("stream",))
        (growth,) = seen.measurements.growth.values()
        return growth.initial_contribution

    assert start(ids) == start(ids[:1, :64])  # Llama is causal
    assert start(ids) != start(ids[1:])


@settings(deadline=None, max_examples=10)
@given(st.lists(st.floats(0.25, 2.0), min_size=2, max_size=5), st.integers(0, 99))
def test_a_write_shrinks_with_the_skips_behind_it(skips: list[float], seed: int) -> None:
    torch.manual_seed(seed)
    model = Model([1.0, *skips]).double()
    x = torch.randn(1, 6, 8, dtype=torch.float64)
    parts, value = [x[0]], x[0]
    with torch.no_grad():
        for layer in model.layers:
            written = layer.fc(value)
            parts = [layer.skip * part for part in parts] + [written]
            value = layer.skip * value + written
    measured = normdiag.inspect(model, inputs={"inputs_embeds": x}, measure=("stream",))
    assert_shares(measured.measurements, parts, 1e-8)


def test_a_learned_skip_per_channel() -> None:
    torch.manual_seed(0)
    vector = nn.Parameter(torch.rand(8, dtype=torch.float64) + 0.5)
    model = Model([1.0, vector, 0.5]).double()
    x = torch.randn(1, 6, 8, dtype=torch.float64)
    parts, value = [x[0]], x[0]
    with torch.no_grad():
        for layer in model.layers:
            written = layer.fc(value)
            parts = [layer.skip * part for part in parts] + [written]
            value = layer.skip * value + written
    measured = normdiag.inspect(model, inputs={"inputs_embeds": x}, measure=("stream",))
    assert_shares(measured.measurements, [part.detach() for part in parts], 1e-8)


@pytest.mark.parametrize("layers", [2, 3])
def test_through_a_norm_nothing_is_additive(layers: int) -> None:
    model = Model([1.0] * layers, is_normed=True)
    x = torch.randn(1, 6, 8)
    seen = normdiag.inspect(model, inputs={"inputs_embeds": x}, measure=("stream",)).measurements
    assert [add.contribution for add in seen.stream.values()] == [None] * layers
    assert seen.growth["layers"].initial_contribution is None
