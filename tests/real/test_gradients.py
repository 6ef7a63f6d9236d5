"""Gradients of real weights against plain autograd: loss, stream, groups, clipping."""

from __future__ import annotations

import pytest
import torch
from transformers import AutoModel, AutoModelForCausalLM, AutoTokenizer

import normdiag
from tests.measure.plain_gradients import Plain, rms

TEXT = "The lighthouse keeper wrote in his diary every evening, although nothing ever happened."


def measure_gradients(directory, text: str = TEXT):
    report = normdiag.inspect(str(directory), texts=(text,), measure=("gradients",))
    assert [f.message for f in report.findings if f.code.startswith("ND6")] == []
    return report.measurements.gradients


@pytest.mark.slow
@pytest.mark.real
def test_smollm2(smollm2_directory) -> None:
    seen = measure_gradients(smollm2_directory)
    model = AutoModelForCausalLM.from_pretrained(smollm2_directory).eval()
    ids = AutoTokenizer.from_pretrained(smollm2_directory)(TEXT, return_tensors="pt")["input_ids"]
    norms = [
        norm
        for layer in model.model.layers
        for norm in (layer.input_layernorm, layer.post_attention_layernorm)
    ]
    inputs = {"input_ids": ids, "labels": ids, "use_cache": False}
    plain = Plain(model, inputs, [*norms, model.model.norm], lambda out: out.loss)
    assert seen.loss.kind == "causal-lm" and seen.loss.tokens == ids.shape[1] - 1
    assert seen.loss.value == pytest.approx(plain.loss, rel=1e-4)
    expected = [rms(gradient) for gradient in plain.stream[1:]]
    assert list(seen.stream.values()) == pytest.approx(expected, rel=1e-3)
    assert seen.ratio_last_first == pytest.approx(expected[-1] / expected[0], rel=1e-3)
    assert seen.global_norm == pytest.approx(plain.global_norm, rel=1e-3)
    assert seen.clipping.factor == pytest.approx(plain.clip_factor, rel=1e-3)
    for group in ("model.embed_tokens", "model.layers.0", "model.layers.29", "model.norm"):
        assert seen.groups[group] == pytest.approx(plain.share(group), rel=2e-3)


@pytest.mark.real
def test_minilm(minilm_directory) -> None:
    """Without a head: mean over tokens of <r, y> / sqrt(H), r drawn by seed 0."""
    seen = measure_gradients(minilm_directory)
    model = AutoModel.from_pretrained(minilm_directory).eval()
    inputs = dict(AutoTokenizer.from_pretrained(minilm_directory)(TEXT, return_tensors="pt"))
    tokens = inputs["input_ids"].shape[1]
    r = torch.randn((1, tokens, 384), generator=torch.Generator().manual_seed(0))
    norms = [
        norm
        for layer in model.encoder.layer
        for norm in (layer.attention.output.LayerNorm, layer.output.LayerNorm)
    ]
    plain = Plain(
        model, inputs, norms, lambda out: (r * out.last_hidden_state).sum(-1).mean() / 384**0.5
    )
    assert (seen.loss.kind, seen.loss.tokens) == ("random-projection", tokens)
    assert seen.loss.value == pytest.approx(plain.loss, abs=1e-5)
    expected = [rms(gradient) for gradient in plain.stream]
    assert list(seen.stream.values()) == pytest.approx(expected, rel=1e-3)
    assert seen.groups["encoder.layer.5"] == pytest.approx(plain.share("encoder.layer.5"), rel=2e-3)
    name = "encoder.layer.3.output.LayerNorm"
    assert seen.norms[name].gain == pytest.approx(plain.norm(f"{name}.weight"), rel=1e-3)
    assert seen.norms[name].bias == pytest.approx(plain.norm(f"{name}.bias"), rel=1e-3)
