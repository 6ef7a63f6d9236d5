"""all-MiniLM-L6-v2: BERT, post-LayerNorm, epsilon 1e-12, three sentences padded to one length."""

from __future__ import annotations

import pytest
from safetensors.torch import load_file
from transformers import AutoTokenizer, BertModel

from tests.oracle.batches import corner
from tests.oracle.bert import bert_case
from tests.oracle.verification import Verification

TEXTS = [
    "The quick brown fox jumps over the lazy dog.",
    "def normalise(x): return (x - x.mean()) / x.std()",
    "Übergewicht",
]


@pytest.fixture(scope="module")
def case(minilm_directory):
    tokenizer = AutoTokenizer.from_pretrained(minilm_directory)
    batch = dict(tokenizer(TEXTS, padding=True, return_tensors="pt"))
    return bert_case(
        BertModel.from_pretrained(minilm_directory).eval(),
        [batch],
        target=str(minilm_directory),
        checkpoint=load_file(minilm_directory / "model.safetensors"),
        few=[corner(batch, 2, 4)],
    )


@pytest.mark.real
class TestMiniLM(Verification):
    """Every number of the report."""

    def test_headline(self, report):
        (stack,) = report["architecture"]["stacks"]
        assert (stack["layers"], stack["placement"], stack["norm_kind"]) == (6, "post", "layernorm")
        assert len(report["architecture"]["norms"]) == 13
        assert len(report["architecture"]["residual_adds"]) == 12
        assert stack["embedding_norm"] == "embeddings.LayerNorm"
        assert stack["final_norm"] is None
