"""Attention logits against q, k and masks that are multiplied by hand in float64."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
import transformers
from torch import nn
from transformers.models.llama.modeling_llama import apply_rotary_pos_emb, repeat_kv

import normdiag
from normdiag.evidence.attention_logits import AttentionLogits
from normdiag.measure.precision import logit_statistics

HEADS, WIDTH, TOKENS = 4, 8, 12
IDS = torch.randint(3, 60, (2, TOKENS), generator=torch.Generator().manual_seed(0))
CAUSAL = torch.ones(TOKENS, TOKENS, dtype=torch.bool).tril()
PADDING = torch.tensor([[1] * TOKENS, [1] * 7 + [0] * 5])
Hooked = dict[str, torch.Tensor]


def measure(model: nn.Module, **inputs: torch.Tensor) -> dict[str, AttentionLogits]:
    report = normdiag.inspect(model, inputs=inputs, measure=("attention-logits",))
    return report.measurements.attention_logits


def run_hooked(model: nn.Module, names: list[str], **inputs: torch.Tensor) -> Hooked:
    """What the modules `names` put out, in float64, heads apart."""
    outputs: Hooked = {}
    modules = dict(model.named_modules())
    hooks = [
        modules[name].register_forward_hook(
            lambda _m, _a, output, name=name: outputs.update({name: output.double()})
        )
        for name in names
    ]
    with torch.no_grad():
        model(**inputs)
    for hook in hooks:
        hook.remove()
    return outputs


def split_heads(x: torch.Tensor, width: int = WIDTH) -> torch.Tensor:
    return x.unflatten(-1, (-1, width)).transpose(1, 2)


def lively(build: Callable[[], nn.Module]) -> nn.Module:
    """Weights large enough that logits differ clearly."""
    torch.manual_seed(1)
    model = build().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.normal_(0.0, 0.3)
    return model


def assert_equal(own: AttentionLogits, logits: torch.Tensor, used: torch.Tensor) -> None:
    """`logits` (sequences, heads, queries, keys); `used` broadcasts to them."""
    used = used.expand_as(logits)
    sizes = logits.abs().masked_fill(~used, -1.0)
    assert own.max_abs == pytest.approx(sizes.max().item(), rel=1e-5)
    place = (own.sequence, own.head, own.query, own.key)
    assert sizes[place].item() == pytest.approx(own.max_abs, rel=1e-5)
    assert own.value == pytest.approx(logits[place].item(), rel=1e-5)
    heads = sizes.amax((0, 2, 3))
    assert own.heads == len(heads)
    middle = (heads.sort().values[len(heads) // 2] + heads.sort().values[(len(heads) - 1) // 2]) / 2
    assert own.median_max == pytest.approx(middle.item(), rel=1e-5)
    weights = logits.masked_fill(~used, -math.inf).softmax(-1).amax(-1)[used.sum(-1) > 1]
    assert own.median_weight == pytest.approx(weights.median().item(), rel=1e-4)


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
@pytest.mark.parametrize("is_padded", [False, True])
def test_llama_with_grouped_keys(attention: str, is_padded: bool) -> None:
    config = transformers.LlamaConfig(
        hidden_size=32, num_hidden_layers=2, num_attention_heads=HEADS, num_key_value_heads=2,
        intermediate_size=48, vocab_size=64,
    )  # fmt: skip
    auto = transformers.AutoModelForCausalLM
    model = lively(lambda: auto.from_config(config, attn_implementation=attention))
    inputs = {"input_ids": IDS} | ({"attention_mask": PADDING} if is_padded else {})
    logits = measure(model, **inputs)
    assert len(logits) == 2
    for layer in range(2):
        base = f"model.layers.{layer}.self_attn"
        out = run_hooked(model, [f"{base}.q_proj", f"{base}.k_proj"], **inputs)
        q, k = (split_heads(out[f"{base}.{side}_proj"]) for side in "qk")
        cos, sin = model.model.rotary_emb(q, torch.arange(TOKENS)[None])
        q, k = apply_rotary_pos_emb(q, k, cos.double(), sin.double())
        real = PADDING.bool() if is_padded else torch.ones_like(IDS, dtype=torch.bool)
        used = CAUSAL & real[:, None, None, :] & real[:, None, :, None]
        own = logits[base]
        assert_equal(own, q @ repeat_kv(k, 2).mT * WIDTH**-0.5, used)
        assert (own.scale, own.head_width) == (pytest.approx(WIDTH**-0.5), WIDTH)
        assert (own.layer, own.is_fused) == (layer, attention == "sdpa")
        assert own.query_rows == int(real.sum())


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
def test_bert_with_padding(attention: str) -> None:
    config = transformers.BertConfig(
        hidden_size=32, num_hidden_layers=1, num_attention_heads=HEADS, intermediate_size=48,
        vocab_size=64, max_position_embeddings=32,
    )  # fmt: skip
    auto = transformers.AutoModel
    model = lively(lambda: auto.from_config(config, attn_implementation=attention))
    inputs = {"input_ids": IDS, "attention_mask": PADDING}
    (own,) = measure(model, **inputs).values()
    names = [f"encoder.layer.0.attention.self.{side}" for side in ("query", "key")]
    q, k = (split_heads(x) for x in run_hooked(model, names, **inputs).values())
    real = PADDING.bool()
    assert_equal(own, q @ k.mT * WIDTH**-0.5, real[:, None, None, :] & real[:, None, :, None])
    assert own.scale == pytest.approx(WIDTH**-0.5)


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
def test_gpt2(attention: str) -> None:
    config = transformers.GPT2Config(n_embd=32, n_layer=1, n_head=HEADS, vocab_size=64)
    auto = transformers.AutoModelForCausalLM
    model = lively(lambda: auto.from_config(config, attn_implementation=attention))
    (own,) = measure(model, input_ids=IDS).values()
    out = run_hooked(model, ["transformer.h.0.attn.c_attn"], input_ids=IDS)
    q, k, _ = out["transformer.h.0.attn.c_attn"].chunk(3, -1)
    assert_equal(own, split_heads(q) @ split_heads(k).mT * WIDTH**-0.5, CAUSAL)
    assert own.scale == pytest.approx(WIDTH**-0.5)


def test_t5_has_a_bias_and_no_scale() -> None:
    config = transformers.T5Config(
        d_model=32, d_kv=WIDTH, num_heads=HEADS, num_layers=1, d_ff=48, vocab_size=64
    )
    model = lively(lambda: transformers.T5EncoderModel(config))
    (own,) = measure(model, input_ids=IDS).values()
    base = "encoder.block.0.layer.0.SelfAttention"
    out = run_hooked(model, [f"{base}.q", f"{base}.k"], input_ids=IDS)
    q, k = (split_heads(x) for x in out.values())
    with torch.no_grad():
        bias = model.get_submodule(base).compute_bias(TOKENS, TOKENS).double()
    assert_equal(own, q @ k.mT + bias, torch.ones(TOKENS, TOKENS, dtype=torch.bool))
    assert own.scale == 1.0


class HandWritten(nn.Module):
    """One attention block on (sequences, tokens, 32)."""

    def __init__(self, *, mask: str, cap: float | None, is_fused: bool = False) -> None:
        super().__init__()
        self.norm, self.qk, self.v = nn.LayerNorm(32), nn.Linear(32, 64), nn.Linear(32, 32)
        self.out, self.mask, self.cap, self.is_fused = nn.Linear(32, 32), mask, cap, is_fused

    def compute_logits(self, h: torch.Tensor) -> torch.Tensor:
        q, k = (split_heads(part) for part in self.qk(h).chunk(2, -1))
        logits = (q / math.sqrt(WIDTH)) @ k.mT
        return logits if self.cap is None else self.cap * torch.tanh(logits / self.cap)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.norm(x)
        v = split_heads(self.v(h))
        if self.is_fused:
            q, k = (split_heads(part) for part in self.qk(h).chunk(2, -1))
            y = F.scaled_dot_product_attention(q, k, v, attn_mask=CAUSAL)
        else:
            logits = self.compute_logits(h)
            if self.mask == "added":
                logits = logits + torch.zeros(TOKENS, TOKENS).masked_fill(~CAUSAL, -1e4)
            else:
                logits = logits.masked_fill(~CAUSAL, -math.inf)
            y = logits.softmax(-1) @ v
        return x + self.out(y.transpose(1, 2).flatten(2))


@pytest.mark.parametrize(
    ("mask", "cap", "is_fused"),
    [("added", None, False), ("filled", None, False), ("filled", 2.0, False), ("", None, True)],
)
def test_written_by_hand(mask: str, cap: float | None, is_fused: bool) -> None:
    model = lively(
        lambda: nn.Sequential(
            *(HandWritten(mask=mask, cap=cap, is_fused=is_fused) for _ in range(2))
        )
    )
    x = torch.randn(2, TOKENS, 32, generator=torch.Generator().manual_seed(2))
    report = normdiag.inspect(model, inputs=(x,), measure=("attention-logits",))
    own = report.measurements.attention_logits["0"]
    with torch.no_grad():
        expected = model.double()[0].compute_logits(model[0].norm(x.double()))
    used = CAUSAL.expand_as(expected)
    assert own.max_abs == pytest.approx(expected[used].abs().max().item(), rel=1e-5)
    assert own.scale == pytest.approx(WIDTH**-0.5)


def test_blocks_of_queries_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    model = lively(
        lambda: nn.Sequential(*(HandWritten(mask="", cap=None, is_fused=True) for _ in range(2)))
    )
    x = torch.randn(2, TOKENS, 32, generator=torch.Generator().manual_seed(2))
    whole = normdiag.inspect(model, inputs=(x,), measure=("attention-logits",))
    monkeypatch.setattr(logit_statistics, "BLOCK_ELEMENTS", 5 * 2 * TOKENS)
    parts = normdiag.inspect(model, inputs=(x,), measure=("attention-logits",))
    logits = whole.measurements.attention_logits
    assert len(logits) == 2
    for id, own in parts.measurements.attention_logits.items():
        assert own.max_abs == pytest.approx(logits[id].max_abs, rel=1e-6)
        assert (own.sequence, own.head, own.query, own.key) == (
            logits[id].sequence, logits[id].head, logits[id].query, logits[id].key
        )  # fmt: skip
        assert own.median_weight == pytest.approx(logits[id].median_weight, rel=1e-6)
