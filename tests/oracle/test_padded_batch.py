"""Padding does not count, on whichever side it is; several batches are one probe."""

from __future__ import annotations

import pytest
import torch
from transformers import BertConfig, BertModel, LlamaConfig, LlamaForCausalLM

from tests.oracle.batches import mask, token_ids
from tests.oracle.bert import bert_case
from tests.oracle.lively import enliven
from tests.oracle.llama import llama_case
from tests.oracle.verification import Verification

VOCABULARY = 60


def pad_batch(side: str, lengths: list[int], seed: int) -> dict[str, torch.Tensor]:
    """A batch whose padding holds tokens like any other: only the mask tells them apart."""
    keep = mask(lengths, side)
    return {"input_ids": token_ids(*keep.shape, VOCABULARY, seed), "attention_mask": keep}


def tiny_llama() -> LlamaForCausalLM:
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=24,
        intermediate_size=40,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=2,
        rms_norm_eps=1e-3,
    )
    return enliven(LlamaForCausalLM(config), seed=1)


def tiny_bert() -> BertModel:
    config = BertConfig(
        vocab_size=VOCABULARY,
        hidden_size=24,
        intermediate_size=40,
        num_hidden_layers=3,
        num_attention_heads=4,
        max_position_embeddings=16,
    )
    return enliven(BertModel(config), seed=2)


LENGTHS = [9, 4, 1, 7]
CASES = {
    "llama-right": lambda: llama_case(tiny_llama(), [pad_batch("right", LENGTHS, seed=3)]),
    "llama-left": lambda: llama_case(tiny_llama(), [pad_batch("left", LENGTHS, seed=3)]),
    "bert-right": lambda: bert_case(tiny_bert(), [pad_batch("right", LENGTHS, seed=4)]),
    "bert-left": lambda: bert_case(tiny_bert(), [pad_batch("left", LENGTHS, seed=4)]),
    "several-batches": lambda: llama_case(
        tiny_llama(),
        [pad_batch("right", lengths, len(lengths)) for lengths in ([6, 2], [11, 5, 8], [3])],
    ),
}


@pytest.fixture(scope="module", params=CASES)
def case(request):
    return CASES[request.param]()


class TestPaddedBatch(Verification):
    """Every number of the report."""
