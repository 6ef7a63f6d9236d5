"""Thirty families at random weights: no error, and no warning that is not so.

What is warned of is so: at initialisation the branches of models that normalise what they write
are about as large as epsilon.
"""

from __future__ import annotations

import pytest

import normdiag
from tests.structure.families.family import families

NAMES = """
    albert bart bert bloom clip cohere convnext deberta-v2 dinov2 distilbert electra falcon gemma2
    gemma3_text glm4 gpt2 gpt_neox gptj llama mamba mistral modernbert olmo2 opt phi qwen2 qwen3
    roberta swin swinv2 t5 vit wav2vec2 whisper
"""
FAMILIES = {
    name: family
    for part in ("a_to_l", "m_to_z")
    for name, family in families(part).items()
    if name in NAMES.split()
}


def test_there_are_thirty() -> None:
    assert len(FAMILIES) >= 30


@pytest.mark.slow
@pytest.mark.parametrize("name", FAMILIES)
def test_a_family_at_random_weights(name: str) -> None:
    model, inputs = FAMILIES[name].build()
    report = normdiag.inspect(model, inputs=inputs, measure=("stream", "norms", "jacobians"))
    assert [f.message for f in report.findings if f.severity == "error"] == []
    warned = {f.code: f.message for f in report.findings if f.severity == "warning"}
    assert warned == {}
