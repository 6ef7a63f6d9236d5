"""Scale-free weights by what they do: f(lambda W) = f(W), the gradient goes as 1/lambda."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn
from transformers import (
    BertConfig,
    BertModel,
    Gemma2Config,
    Gemma2Model,
    LlamaConfig,
    LlamaModel,
    Olmo2Config,
    Olmo2Model,
    Qwen3Config,
    Qwen3Model,
)

from normdiag.measure.invariances.scale_free import find_scale_free_weights
from tests.measure.forwards import accumulate_forward

SIZES = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "vocab_size": 50,
    "pad_token_id": 0,
}
DECODER = {**SIZES, "num_key_value_heads": 1, "head_dim": 16, "rms_norm_eps": 0.0}
MODELS = {
    "OLMo 2": (Olmo2Model, Olmo2Config, DECODER),
    "Qwen 3": (Qwen3Model, Qwen3Config, DECODER),
    "Gemma 2": (Gemma2Model, Gemma2Config, DECODER),
    "Llama": (LlamaModel, LlamaConfig, DECODER),
    "BERT": (BertModel, BertConfig, {**SIZES, "layer_norm_eps": 0.0}),
}
ROUNDING = 1e-5
"""The norms of transformers compute in float32, whatever the model's dtype."""
IDS = torch.randint(1, 50, (2, 7), generator=torch.Generator().manual_seed(1))


class Branches(nn.Module):
    """One way to a norm per weight, and what spoils it."""

    def __init__(self) -> None:
        super().__init__()

        def square(bias: bool = False) -> nn.Linear:
            return nn.Linear(16, 16, bias=bias)

        self.plain, self.biased, self.leaking, self.squared, self.gated = (
            square(), square(bias=True), square(), square(), square()
        )  # fmt: skip
        self.first, self.second = square(), square()
        self.scale = nn.Parameter(torch.randn(16))
        self.norms = nn.ModuleList(nn.LayerNorm(16, eps=0.0) for _ in range(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x + self.norms[0](self.plain(x)) + self.norms[1](self.biased(x))
        y = y + self.norms[2](self.second(torch.relu(self.first(x))) * self.scale)
        leak = self.leaking(x)
        y = y + leak / leak.pow(2).mean(-1, keepdim=True).sqrt() + leak
        squared = torch.relu(self.squared(x)).pow(2)
        y = y + nn.functional.layer_norm(squared, (16,), eps=0.0)
        gated = nn.functional.silu(self.gated(x))
        return y + gated / gated.norm(dim=-1, keepdim=True)


def custom() -> tuple[nn.Module, dict[str, torch.Tensor]]:
    return Branches(), {"x": torch.randn(2, 5, 16, generator=torch.Generator().manual_seed(2))}


def build_model(name: str) -> tuple[nn.Module, dict]:
    torch.manual_seed(0)
    if name == "custom":
        model, inputs = custom()
        return model.double().eval(), {k: v.double() for k, v in inputs.items()}
    of, config, sizes = MODELS[name]
    model = of(config(**sizes))
    model.pooler = None  # what comes out of it is not looked at
    return model.double().eval(), {"input_ids": IDS}


def find_weights(model: nn.Module, inputs: dict) -> dict[str, str]:
    assembly = accumulate_forward(model, **inputs)
    return {
        each.weight: each.norm
        for each in find_scale_free_weights(model, assembly.first_pass.graph, assembly.sites)
    }


def output(model: nn.Module, inputs: dict) -> torch.Tensor:
    out = model(**inputs)
    return out if isinstance(out, torch.Tensor) else out[0]


def gradient(model: nn.Module, inputs: dict, name: str) -> torch.Tensor:
    out = output(model, inputs)
    weights = torch.randn(out.shape, generator=torch.Generator().manual_seed(3), dtype=out.dtype)
    (of,) = torch.autograd.grad((out * weights).sum(), [model.get_parameter(name)])
    return of


@pytest.mark.parametrize("name", ["custom", *MODELS])
def test_exactly_the_weights_whose_scale_does_not_show(name: str) -> None:
    model, inputs = build_model(name)
    reference = output(model, inputs).detach()
    unchanged = set()
    for weight, parameter in model.named_parameters():
        if parameter.dim() > 1:
            with torch.no_grad():
                parameter.mul_(3.0)
                moved = (output(model, inputs) - reference).abs().max()
                parameter.div_(3.0)
            if moved < ROUNDING * reference.abs().max():
                unchanged.add(weight)
    assert set(find_weights(model, inputs)) == unchanged


@pytest.mark.parametrize("name", ["custom", "OLMo 2", "Qwen 3", "Gemma 2"])
def test_the_gradient_is_inverse_to_the_scale_and_orthogonal_to_the_weight(name: str) -> None:
    model, inputs = build_model(name)
    weights = find_weights(model, inputs)
    assert weights
    for weight in weights:
        scaled = copy.deepcopy(model)
        with torch.no_grad():
            scaled.get_parameter(weight).mul_(4.0)
        before, after = (gradient(m, inputs, weight) for m in (model, scaled))
        assert torch.allclose(4.0 * after, before, rtol=0, atol=ROUNDING * before.abs().max())
        w = model.get_parameter(weight)
        assert abs((before * w).sum()) <= ROUNDING * before.norm() * w.norm()


def test_epsilon_takes_its_part() -> None:
    """lambda |g(lambda)| / |g(1)| is .952 where epsilon is a tenth of the variance."""
    torch.manual_seed(0)
    x = torch.randn(64, 64, dtype=torch.float64)
    w = torch.randn(64, 64, dtype=torch.float64) / 8
    r = torch.randn(64, 64, dtype=torch.float64)

    def size(scale: float) -> float:
        weight = (scale * w).requires_grad_()
        loss = (r * nn.functional.layer_norm(x @ weight.T, (64,), eps=1e-5)).sum()
        return float(torch.autograd.grad(loss, weight)[0].norm())

    assert 0.01 * size(0.01) / size(1.0) == pytest.approx(0.952, abs=0.005)


def test_the_norm_and_the_size_are_told() -> None:
    model, inputs = build_model("OLMo 2")
    assembly = accumulate_forward(model, **inputs)
    (query,) = (
        each
        for each in find_scale_free_weights(model, assembly.first_pass.graph, assembly.sites)
        if each.weight == "layers.1.self_attn.q_proj.weight"
    )
    assert query.norm == "layers.1.self_attn.q_norm"
    weight = model.get_parameter(query.weight).detach()
    assert query.frobenius == pytest.approx(float(weight.square().sum().sqrt()), rel=1e-12)
