"""Attention logits of trained models against q and k that hooks read, multiplied in float64."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import transformers
from torch import nn
from transformers.models.llama.modeling_llama import apply_rotary_pos_emb, repeat_kv

import normdiag

IDS = torch.arange(1000, 1040).view(1, 40)


def read_outputs(model: nn.Module, names: list[str]) -> list[torch.Tensor]:
    """Outputs of the modules `names`, in float64."""
    outputs: dict[str, torch.Tensor] = {}
    modules = dict(model.named_modules())
    hooks = [
        modules[name].register_forward_hook(
            lambda _m, _a, output, name=name: outputs.update({name: output.double()})
        )
        for name in names
    ]
    with torch.no_grad():
        model(input_ids=IDS)
    for hook in hooks:
        hook.remove()
    return [outputs[name] for name in names]


def split_heads(x: torch.Tensor, width: int) -> torch.Tensor:
    return x.unflatten(-1, (-1, width)).transpose(1, 2)


def measure(model: nn.Module):
    report = normdiag.inspect(model, inputs={"input_ids": IDS}, measure=("attention-logits",))
    assert not [finding for finding in report.findings if finding.code == "ND504"]
    return report.measurements.attention_logits


def test_minilm(minilm_directory: Path) -> None:
    model = transformers.AutoModel.from_pretrained(minilm_directory).eval()
    logits = measure(model)
    assert len(logits) == 6
    for layer, own in enumerate(logits.values()):
        base = f"encoder.layer.{layer}.attention.self"
        q, k = (split_heads(x, 32) for x in read_outputs(model, [f"{base}.query", f"{base}.key"]))
        largest = (q @ k.mT * 32**-0.5).abs().max().item()
        assert own.max_abs == pytest.approx(largest, rel=1e-4)
        assert (own.layer, own.heads, own.head_width) == (layer, 12, 32)
        assert own.scale == pytest.approx(32**-0.5)


@pytest.mark.slow
def test_smollm2(smollm2_directory: Path) -> None:
    model = transformers.AutoModelForCausalLM.from_pretrained(smollm2_directory).eval()
    logits = measure(model)
    assert len(logits) == 30
    hidden = torch.ones(40, 40, dtype=torch.bool).triu(1)
    for layer, own in enumerate(logits.values()):
        base = f"model.layers.{layer}.self_attn"
        q, k = (
            split_heads(x, 64) for x in read_outputs(model, [f"{base}.q_proj", f"{base}.k_proj"])
        )
        cos, sin = model.model.rotary_emb(q, torch.arange(40)[None])
        q, k = apply_rotary_pos_emb(q, k, cos.double(), sin.double())
        products = (q @ repeat_kv(k, 3).mT * 64**-0.5).masked_fill(hidden, 0.0)
        assert own.max_abs == pytest.approx(products.abs().max().item(), rel=1e-4)
        assert own.layer == layer
        assert own.scale == pytest.approx(64**-0.5)
