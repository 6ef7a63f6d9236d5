"""The bound on attention logits against logits computed by hand, in several spellings."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
import transformers
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from transformers.models.qwen3.modeling_qwen3 import apply_rotary_pos_emb, repeat_kv

from normdiag.evidence.precision import LogitBound
from normdiag.inputs.batch import Batch
from normdiag.measure.precision.attention_logits import MeasuredLogits, measure_attention_logits
from normdiag.measure.precision.logit_bounds import compute_logit_bounds
from tests.measure.forwards import accumulate_forward

HEADS, WIDTH = 2, 16
SMALL = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": HEADS,
    "num_key_value_heads": 1,
    "intermediate_size": 48,
    "vocab_size": 64,
    "max_position_embeddings": 32,
}
IDS = torch.arange(3, 11).view(1, 8)


def bounds(model: nn.Module, *args: torch.Tensor, **inputs: torch.Tensor) -> dict[str, LogitBound]:
    assembly = accumulate_forward(model, *args, **inputs)
    batch = Batch(args=args, inputs=inputs)
    logits = measure_attention_logits(model, batch, assembly.sites)
    assert isinstance(logits, MeasuredLogits)
    return compute_logit_bounds(assembly.sites, assembly.learned_values, logits.by_product)


def lively(config: transformers.PreTrainedConfig, attention: str) -> nn.Module:
    """With gains and biases of q and k norms that are not 1 and 0."""
    torch.manual_seed(0)
    model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation=attention)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if any(norm in name for norm in ("q_norm", "k_norm", "q_layernorm", "k_layernorm")):
                parameter.normal_(0.0, 3.0)
    return model.eval()


def by_hand(model: nn.Module, layer: int) -> torch.Tensor:
    """All scaled q . k of one layer of a Qwen3, from what its norms give."""
    attention = model.model.layers[layer].self_attn
    gave: dict[str, torch.Tensor] = {}
    handles = [
        getattr(attention, name).register_forward_hook(
            lambda _m, _a, output, name=name: gave.update({name: output})
        )
        for name in ("q_norm", "k_norm")
    ]
    with torch.no_grad():
        model(input_ids=IDS)
    for handle in handles:
        handle.remove()
    q, k = (gave[name].transpose(1, 2) for name in ("q_norm", "k_norm"))
    cos, sin = model.model.rotary_emb(q, torch.arange(8)[None])
    q, k = apply_rotary_pos_emb(q, k, cos, sin)
    return (q @ repeat_kv(k, HEADS).mT) * WIDTH**-0.5


class TestQwen3:
    @pytest.mark.parametrize("attention", ["eager", "sdpa"])
    def test_the_gains_and_the_scale(self, attention: str) -> None:
        model = lively(transformers.Qwen3Config(head_dim=WIDTH, **SMALL), attention)
        found = bounds(model, input_ids=IDS)
        for i, layer in enumerate(model.model.layers):
            own = found[f"model.layers.{i}.self_attn.q_norm"]
            gains = [
                n.weight.abs().max().item()
                for n in (layer.self_attn.q_norm, layer.self_attn.k_norm)
            ]
            expected = math.prod(gains) * WIDTH * WIDTH**-0.5
            assert own.bound == pytest.approx(expected, rel=1e-12)
            assert own.k_norm == f"model.layers.{i}.self_attn.k_norm"
            assert own.scale == WIDTH**-0.5
            largest = by_hand(model, i).tril().abs().max().item()
            assert largest <= own.bound
            assert own.max_observed == pytest.approx(largest, rel=1e-5)

    def test_a_model_without_such_norms_has_no_bound(self) -> None:
        torch.manual_seed(0)
        model = transformers.AutoModelForCausalLM.from_config(transformers.LlamaConfig(**SMALL))
        assert bounds(model.eval(), input_ids=IDS) == {}


def test_norms_over_all_heads_bound_by_their_whole_width() -> None:
    """One head could hold all of it (OLMo 2)."""
    model = lively(transformers.Olmo2Config(**SMALL), "eager")
    own = bounds(model, input_ids=IDS)["model.layers.0.self_attn.q_norm"]
    attention = model.model.layers[0].self_attn
    lengths = [
        n.weight.abs().max().item() * math.sqrt(n.weight.numel())
        for n in (attention.q_norm, attention.k_norm)
    ]
    assert own.bound == pytest.approx(math.prod(lengths) * WIDTH**-0.5, rel=1e-12)
    assert own.max_observed is not None and own.max_observed <= own.bound


def test_gemma_counts_one_plus_w_and_its_own_scale() -> None:
    config = transformers.Gemma3TextConfig(head_dim=WIDTH, query_pre_attn_scalar=64, **SMALL)
    model = lively(config, "sdpa")
    own = bounds(model, input_ids=IDS)["model.layers.0.self_attn.q_norm"]
    attention = model.model.layers[0].self_attn
    gains = [(1 + n.weight).abs().max().item() for n in (attention.q_norm, attention.k_norm)]
    assert own.bound == pytest.approx(math.prod(gains) * WIDTH * 64**-0.5, rel=1e-6)


@pytest.mark.parametrize(
    ("config", "turned"),
    [
        (transformers.CohereConfig(use_qk_norm=True, pad_token_id=0, **SMALL), "in pairs"),
        (transformers.PersimmonConfig(qk_layernorm=True, **SMALL), "in part"),
        (transformers.PhiConfig(qk_layernorm=True, **SMALL), "in part"),
    ],
    ids=lambda value: getattr(value, "model_type", value),
)
def test_however_positions_turn_q_and_k(config: transformers.PreTrainedConfig, turned: str) -> None:
    """Rotary embeddings of all spellings keep lengths: `turned` says what is special here."""
    model = lively(config, "eager")
    found = bounds(model, input_ids=IDS)
    assert len(found) == 2, turned
    modules = dict(model.named_modules())
    for q_norm, own in found.items():
        lengths = [
            modules[name].weight.abs().max().item() * math.sqrt(WIDTH)
            + (0.0 if getattr(modules[name], "bias", None) is None else modules[name].bias.norm())
            for name in (q_norm, own.k_norm)
        ]
        assert own.bound == pytest.approx(float(math.prod(lengths)) * WIDTH**-0.5, rel=1e-6)
        assert own.max_observed is not None and 0 < own.max_observed <= own.bound


class Block(nn.Module):
    """Attention whose q and k norms are given; nothing is turned."""

    def __init__(self, norms: list[nn.Module], temperature: float | None) -> None:
        super().__init__()
        self.ln, self.qkv = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 3 * WIDTH)
        self.q_norm, self.k_norm = norms
        self.out, self.temperature = nn.Linear(WIDTH, WIDTH), None
        if temperature is not None:
            self.temperature = nn.Parameter(torch.tensor(temperature))

    def forward(self, x):
        q, k, v = self.qkv(self.ln(x)).chunk(3, -1)
        q, k = self.q_norm(q), self.k_norm(k)
        scores = q @ k.mT
        scores = scores * (WIDTH**-0.5 if self.temperature is None else self.temperature)
        return x + self.out(F.softmax(scores, -1) @ v)


def plain(norms: list[nn.Module], temperature: float | None = None) -> LogitBound:
    model = nn.Sequential(Block(norms, temperature), Block(norms, temperature)).eval()
    found = bounds(model, torch.randn(1, 6, WIDTH))
    return next(iter(found.values()))


class TestNothingTurned:
    def test_the_largest_product_of_gains_counts(self) -> None:
        torch.manual_seed(0)
        norms = [nn.RMSNorm(WIDTH, 1e-6), nn.RMSNorm(WIDTH, 1e-6)]
        for channel, norm in enumerate(norms):
            nn.init.normal_(norm.weight)
            nn.init.constant_(norm.weight[channel : channel + 1], 9.0)
        own = plain(norms)
        together = (norms[0].weight * norms[1].weight).abs().max().item()
        assert own.bound == pytest.approx(together * WIDTH * WIDTH**-0.5, rel=1e-6)
        apart = math.prod(n.weight.abs().max().item() for n in norms) * WIDTH**0.5
        assert own.bound < apart

    def test_a_learned_scale_is_found(self) -> None:
        torch.manual_seed(0)
        own = plain([nn.RMSNorm(WIDTH, 1e-6), nn.RMSNorm(WIDTH, 1e-6)], temperature=3.5)
        assert own.scale == pytest.approx(3.5) and own.bound == pytest.approx(3.5 * WIDTH)

    def test_a_bias_counts(self) -> None:
        torch.manual_seed(0)
        norms = [nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)]
        nn.init.normal_(norms[0].bias)
        own = plain(norms)
        length = math.sqrt(WIDTH) + norms[0].bias.norm().item()
        assert own.bound == pytest.approx(length * math.sqrt(WIDTH) * WIDTH**-0.5, rel=1e-6)

    @settings(deadline=None, max_examples=25)
    @given(
        seed=st.integers(0, 999),
        spread=st.floats(0.1, 3.0),
        at=st.integers(0, WIDTH - 1),
    )
    def test_no_input_exceeds_it(self, seed: int, spread: float, at: int) -> None:
        """Neither a random one nor one that lies along the channel of the largest gains."""
        torch.manual_seed(seed)
        norms = [nn.RMSNorm(WIDTH, 1e-6), nn.RMSNorm(WIDTH, 1e-6)]
        for norm in norms:
            nn.init.normal_(norm.weight, 0.0, spread)
        block = Block(norms, None)
        own = next(iter(bounds(nn.Sequential(block, block), torch.randn(1, 6, WIDTH)).values()))
        one = torch.zeros(1, WIDTH)
        one[0, at] = 1e3
        worst = 0.0
        for x, y in ((torch.randn(99, WIDTH), torch.randn(99, WIDTH)), (one, one)):
            scores = block.q_norm(x).double() @ block.k_norm(y).double().mT * WIDTH**-0.5
            worst = max(worst, scores.abs().max().item())
        assert worst <= own.bound * (1 + 1e-6)
        top = int((norms[0].weight * norms[1].weight).abs().argmax())
        if at == top:
            assert worst == pytest.approx(own.bound, rel=1e-4)
