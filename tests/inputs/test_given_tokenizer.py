"""A model in hand with its tokenizer is measured on texts as its checkpoint is."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import transformers
from torch import nn

import normdiag
from normdiag.errors import UsageError

TINY = Path(__file__).parents[2] / "sample_models" / "tiny_llama"
STREAM = {"measure": "stream-adds"}


@pytest.fixture(scope="module")
def model() -> nn.Module:
    return transformers.AutoModelForCausalLM.from_pretrained(TINY).eval()


@pytest.fixture(scope="module")
def tokenizer() -> transformers.PreTrainedTokenizerBase:
    return transformers.AutoTokenizer.from_pretrained(TINY)


def test_texts_are_those_of_the_checkpoint(model, tokenizer) -> None:
    texts = ["The norm divides the vector", "by its own size"]
    given = normdiag.inspect(model, tokenizer=tokenizer, texts=texts, **STREAM)
    stored = normdiag.inspect(str(TINY), texts=texts, **STREAM)
    assert given.subject.probe == stored.subject.probe
    assert given.subject.special_tokens == ("<s>",)
    assert given.measurements.stream == stored.measurements.stream


def test_without_texts_the_built_in_ones_are_run(model, tokenizer) -> None:
    report = normdiag.trace(model, tokenizer=tokenizer, **STREAM)
    assert report.subject.probe.kind == "texts"
    assert report.trace[0].tokens[0] == "<s>"
    assert report.trace[0].special[0]


def test_texts_without_a_tokenizer_name_the_argument(model) -> None:
    with pytest.raises(UsageError, match="tokenizer=AutoTokenizer"):
        normdiag.inspect(model, texts=["a text"], **STREAM)


@pytest.mark.parametrize("wrong", ["org/name", torch.zeros(3)])
def test_what_is_no_tokenizer_is_refused(model, wrong: object) -> None:
    with pytest.raises(UsageError, match=r"(?s)tokenizer is a .*AutoTokenizer\.from_pretrained"):
        normdiag.inspect(model, tokenizer=wrong, texts=["a text"])
