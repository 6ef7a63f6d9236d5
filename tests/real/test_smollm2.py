"""SmolLM2-135M-Instruct: Llama, pre-RMSNorm, 30 layers, gains of both signs in the first norm."""

from __future__ import annotations

from typing import Any

import pytest
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, AutoTokenizer

import normdiag
from tests.oracle.batches import corner
from tests.oracle.llama import llama_case
from tests.oracle.verification import Verification

LENGTH = 24
TEXTS = [
    "The lighthouse keeper wrote in his diary every evening, although nothing ever happened there"
    " but the weather and the slow turning of the lamp above the sea.",
    "def mean(values):\n    total = 0\n    for value in values:\n        total += value\n"
    "    return total / len(values)\n\nprint(mean([1, 2, 3]))",
    "Am Anfang war das Wort, und am Ende stand eine Zahl, die niemand verstand. 世界の平均はゼロ"
    " и так далее.",
]


@pytest.fixture(scope="module")
def case(smollm2_directory):
    tokenizer = AutoTokenizer.from_pretrained(smollm2_directory)
    ids = tokenizer(TEXTS, truncation=True, max_length=LENGTH, return_tensors="pt")["input_ids"]
    assert ids.shape == (len(TEXTS), LENGTH)
    batch = {"input_ids": ids}
    return llama_case(
        AutoModelForCausalLM.from_pretrained(smollm2_directory).eval(),
        [batch],
        target=str(smollm2_directory),
        checkpoint=load_file(smollm2_directory / "model.safetensors"),
        few=[corner(batch, 2, 2)],
    )


@pytest.mark.real
class TestSmolLM2(Verification):
    """Every number of the report."""

    def test_headline(self, report):
        assert_headline(report)

    def test_first_norm_has_gains_of_both_signs(self, report):
        gain = report["architecture"]["norms"][0]["gain"]
        assert 0 < gain["negatives"] < 576


def assert_headline(report: dict[str, Any]) -> None:
    """What a reader must learn first."""
    (stack,) = report["architecture"]["stacks"]
    assert (stack["layers"], stack["placement"], stack["norm_kind"]) == (30, "pre", "rmsnorm")
    assert len(report["architecture"]["norms"]) == 61
    assert len(report["architecture"]["residual_adds"]) == 60
    assert stack["final_norm"] in ("model.norm", "norm")


@pytest.mark.real
@pytest.mark.slow
def test_the_gguf_itself_says_the_same(smollm2_gguf, smollm2_directory):
    """It is loaded as the language model that it is, head included."""
    options = {"measure": ("norms",), "texts": TEXTS}
    from_gguf = normdiag.inspect(str(smollm2_gguf), **options).to_dict()
    assert_headline(from_gguf)
    copy = normdiag.inspect(str(smollm2_directory), **options).to_dict()
    assert from_gguf["measurements"]["norms"] == copy["measurements"]["norms"]
    assert from_gguf["subject"]["parameters"] == copy["subject"]["parameters"]
