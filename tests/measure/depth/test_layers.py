"""What a layer does to the stream, against its definitions: block influence, angle, ranks."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn
from transformers import BertConfig, BertModel, LlamaConfig, LlamaForCausalLM

import normdiag
from normdiag.evidence.layers import LayerMeasurement


def layers_of(model: nn.Module, **inputs: torch.Tensor) -> list[LayerMeasurement]:
    seen = normdiag.inspect(model, inputs=inputs, measure=("stream",))
    return list(seen.measurements.layers.values())


def check(found: LayerMeasurement, x: torch.Tensor, y: torch.Tensor, rtol: float) -> None:
    """x, y: (tokens, features), the first token among them."""
    a, b = x.double().numpy(), y.double().numpy()
    cosine = (a * b).sum(-1) / (np.linalg.norm(a, axis=-1) * np.linalg.norm(b, axis=-1))
    np.testing.assert_allclose(found.block_influence, (1 - cosine).mean(), rtol=rtol)
    np.testing.assert_allclose(
        found.angular_distance, (np.arccos(cosine) / np.pi).mean(), rtol=rtol
    )
    s = np.linalg.svd(b[1:], compute_uv=False)
    p = s / s.sum()
    np.testing.assert_allclose(found.effective_rank, np.exp(-(p * np.log(p)).sum()), rtol=rtol)
    np.testing.assert_allclose(found.stable_rank, (s**2).sum() / s[0] ** 2, rtol=rtol)
    assert found.tokens == len(a)


def test_llama() -> None:
    torch.manual_seed(0)
    config = LlamaConfig(
        hidden_size=32,
        num_hidden_layers=3,
        num_attention_heads=2,
        num_key_value_heads=2,
        intermediate_size=48,
        vocab_size=64,
    )
    model, ids = LlamaForCausalLM(config).eval().double(), torch.randint(64, (1, 24))
    stream: list[torch.Tensor] = []
    hooks = [
        layer.register_forward_pre_hook(lambda m, args: stream.append(args[0][0]))
        for layer in model.model.layers
    ]
    # hidden_states[-1] is behind the final norm: the stream is what that norm is given
    hooks.append(model.model.norm.register_forward_pre_hook(lambda m, a: stream.append(a[0][0])))
    with torch.no_grad():
        model(ids)
    for hook in hooks:
        hook.remove()
    found = layers_of(model, input_ids=ids)
    assert [layer.layer for layer in found] == [0, 1, 2]
    for k, layer in enumerate(found):
        check(layer, stream[k], stream[k + 1], 1e-7)


def test_bert_through_the_norms_that_close_its_layers() -> None:
    torch.manual_seed(0)
    config = BertConfig(
        hidden_size=32,
        num_hidden_layers=3,
        num_attention_heads=2,
        intermediate_size=48,
        vocab_size=64,
    )
    model, ids = BertModel(config).eval().double(), torch.randint(64, (1, 20))
    with torch.no_grad():
        states = model(ids, output_hidden_states=True).hidden_states
    found = layers_of(model, input_ids=ids)
    for k, layer in enumerate(found):
        check(layer, states[k][0], states[k + 1][0], 1e-7)


class Turn(nn.Module):
    """x + u with u across x, of a size that makes ||y|| = g ||x||."""

    def __init__(self, width: int, growth: float) -> None:
        super().__init__()
        half = width // 2
        block = torch.zeros(width, width)
        block[:half, half:], block[half:, :half] = -torch.eye(half), torch.eye(half)
        self.fc = nn.Linear(width, width, bias=False)
        self.fc.weight = nn.Parameter(block * (growth**2 - 1) ** 0.5)

    def forward(self, x):
        return x + self.fc(x)


class Turns(nn.Module):
    def __init__(self, growth: float, width: int = 64) -> None:
        super().__init__()
        self.layers = nn.ModuleList([Turn(width, growth), Turn(width, growth)])

    def forward(self, inputs_embeds):
        for layer in self.layers:
            inputs_embeds = layer(inputs_embeds)
        return inputs_embeds


@pytest.mark.parametrize("growth", [1.02, 1.045, 1.1])
def test_an_orthogonal_update_has_the_influence_that_its_growth_tells(growth: float) -> None:
    """BI = 1 - 1/g, angular distance arccos(1/g) / pi."""
    model = Turns(growth).double()
    for layer in layers_of(model, inputs_embeds=torch.randn(1, 8, 64, dtype=torch.float64)):
        assert layer.block_influence == pytest.approx(1 - 1 / growth, rel=1e-6)
        assert layer.angular_distance == pytest.approx(np.arccos(1 / growth) / np.pi, rel=1e-6)


def test_a_layer_that_hardly_turns_keeps_its_digits() -> None:
    model = Turns((1 + 1e-16**0.75) ** 0.5).double()
    size = model.layers[0].fc.weight.abs().max().item()
    (layer, _) = layers_of(model, inputs_embeds=torch.randn(1, 8, 64, dtype=torch.float64))
    assert layer.angular_distance == pytest.approx(np.arctan(size) / np.pi, rel=1e-6)
    assert layer.block_influence == pytest.approx(size**2 / 2, rel=1e-6)


def test_equal_tokens_have_rank_one() -> None:
    model = Turns(1.1).double()
    x = torch.randn(1, 1, 64, dtype=torch.float64).expand(1, 8, 64).contiguous()
    for layer in layers_of(model, inputs_embeds=x):
        assert layer.effective_rank == pytest.approx(1, abs=1e-5)
        assert layer.stable_rank == pytest.approx(1, abs=1e-12)


def test_a_model_that_takes_one_length_is_given_it() -> None:
    class Fixed(Turns):
        def forward(self, inputs_embeds):
            assert inputs_embeds.shape[1] == 80
            return super().forward(inputs_embeds)

    (layer, _) = layers_of(Fixed(1.1), inputs_embeds=torch.randn(2, 80, 64))
    assert layer.tokens == 64


def test_one_token_has_no_rank() -> None:
    (layer, _) = layers_of(Turns(1.1), inputs_embeds=torch.randn(3, 1, 64))
    assert (layer.effective_rank, layer.stable_rank) == (None, None)
    assert layer.tokens == 1 and layer.block_influence is not None


def test_a_zero_token_has_no_angle() -> None:
    (layer, _) = layers_of(Turns(1.1), inputs_embeds=torch.zeros(1, 4, 64))
    assert (layer.block_influence, layer.angular_distance, layer.effective_rank) == (
        None,
        None,
        None,
    )
