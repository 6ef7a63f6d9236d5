"""Random models of families, what is measured of their blocks, and what must be said of one."""

from dataclasses import astuple

import numpy as np
import pytest
import torch
from transformers import (
    BertConfig,
    BertModel,
    CohereConfig,
    CohereForCausalLM,
    Gemma2Config,
    Gemma2ForCausalLM,
    GPT2Config,
    GPT2LMHeadModel,
    GPTNeoXConfig,
    GPTNeoXForCausalLM,
    LlamaConfig,
    LlamaForCausalLM,
    Olmo2Config,
    Olmo2ForCausalLM,
    T5Config,
    T5ForConditionalGeneration,
)

from normdiag.inputs.batch import Batch
from normdiag.measure.blocks.blocks import measure_blocks
from tests.oracle import blocks as oracle

LENGTH, WIDTH = 16, 24
SMALL = {"hidden_size": WIDTH, "intermediate_size": 40, "num_hidden_layers": 3, "vocab_size": 50}
HEADS = {"num_attention_heads": 2}
GROUPED = {**SMALL, **HEADS, "num_key_value_heads": 1}
T5 = {"d_model": WIDTH, "d_kv": 12, "d_ff": 40, "num_layers": 2, "num_heads": 2, "vocab_size": 50}
GPT2 = {"n_embd": WIDTH, "n_head": 2, "n_layer": 3, "vocab_size": 50, "n_positions": 32}


def ids(seed=0, length=LENGTH):
    return torch.randint(2, 50, (1, length), generator=torch.Generator().manual_seed(seed))


FAMILIES = {
    "llama": (lambda: LlamaForCausalLM(LlamaConfig(**GROUPED)), "model.layers", 3, 0),
    "gpt2": (lambda: GPT2LMHeadModel(GPT2Config(**GPT2)), "transformer.h", 3, 0),
    "bert": (lambda: BertModel(BertConfig(**SMALL, **HEADS)), "encoder.layer", 3, 2),
    "olmo2": (lambda: Olmo2ForCausalLM(Olmo2Config(**GROUPED)), "model.layers", 3, 0),
    "gemma2": (
        lambda: Gemma2ForCausalLM(Gemma2Config(**GROUPED, head_dim=12)), "model.layers", 3, 0,
    ),
    "gpt_neox": (
        lambda: GPTNeoXForCausalLM(GPTNeoXConfig(**SMALL, **HEADS)), "gpt_neox.layers", 3, 0,
    ),
    "cohere": (lambda: CohereForCausalLM(CohereConfig(**GROUPED)), "model.layers", 3, 0),
    "t5 encoder": (lambda: T5ForConditionalGeneration(T5Config(**T5)), "encoder.block", 2, 0),
    "t5 decoder": (lambda: T5ForConditionalGeneration(T5Config(**T5)), "decoder.block", 2, 0),
}  # fmt: skip


def example_inputs(name, length=LENGTH):
    inputs = {"input_ids": ids(length=length)}
    return inputs | {"decoder_input_ids": ids(1, length)} if name.startswith("t5") else inputs


def measure(model, inputs, **settings):
    batch = Batch(inputs=inputs, rows=(0,))
    return measure_blocks(
        model,
        batch,
        lambda: None,
        settings.pop("positions", LENGTH),
        settings.pop("depths", (1.0,)),
    )


def assert_like(block, jacobian, zeros):
    expected = oracle.numbers(jacobian, zeros)
    assert block.zeros == zeros
    assert abs(block.sigma_max / expected["sigma_max"] - 1) <= block.error
    if block.is_bound:
        assert block.sigma_min >= expected["sigma_min"]
        assert block.kappa <= expected["kappa"]
    else:
        assert block.sigma_min == pytest.approx(expected["sigma_min"], rel=0.01)
        assert block.kappa == pytest.approx(expected["kappa"], rel=0.01)
    if block.method == "dense":
        assert block.error < 1e-4
        assert block.mean_square == pytest.approx(expected["mean_square"], rel=1e-4)
        assert block.effective_rank == pytest.approx(expected["effective_rank"], rel=1e-3)
        off = np.array(astuple(block.singular_values)) - expected["quantiles"]
        assert np.abs(off).max() <= block.error * expected["sigma_max"]
    else:
        assert block.error < 0.01
        assert block.singular_values is None
        off = abs(block.mean_square - expected["mean_square"])
        assert off < 6 * block.mean_square_deviation  # itself estimated from few samples
