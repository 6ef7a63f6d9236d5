"""A tiny Llama checkpoint with a tokenizer, written by transformers once per session."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import transformers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

from normdiag.inputs.built_in_texts import TEXTS

VOCABULARY = 400
LLAMA = transformers.LlamaConfig(
    hidden_size=32,
    num_hidden_layers=2,
    num_attention_heads=2,
    num_key_value_heads=2,
    intermediate_size=64,
    vocab_size=VOCABULARY,
    max_position_embeddings=256,
)


def byte_level_tokenizer() -> transformers.PreTrainedTokenizerFast:
    """A byte-level BPE, trained on the built-in texts, that puts <s> before a text."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=["<s>", "</s>", "<pad>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(TEXTS, trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", tokenizer.token_to_id("<s>"))]
    )
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>", pad_token="<pad>"
    )


@pytest.fixture(scope="session")
def tokenizer() -> transformers.PreTrainedTokenizerFast:
    return byte_level_tokenizer()


@pytest.fixture(scope="session")
def llama_dir(
    tmp_path_factory: pytest.TempPathFactory, tokenizer: transformers.PreTrainedTokenizerFast
) -> Path:
    """A Llama with weights, configuration and tokenizer. Not to be changed."""
    folder = tmp_path_factory.mktemp("llama")
    torch.manual_seed(3)
    transformers.LlamaForCausalLM(LLAMA).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder
