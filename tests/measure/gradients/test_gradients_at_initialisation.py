"""Gradients of models as transformers draws them, against a table of plain autograd."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy
from transformers import (
    BertConfig,
    BertForMaskedLM,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
)

from normdiag.inputs.batch import Batch
from normdiag.measure.gradients.gradients import compute_gradients
from normdiag.measure.gradients.objectives import Objective

AT_INITIALISATION = {
    "gpt2": (0.382, 11.5, 0.087, 0.222, 0.032),
    "llama": (0.244, 5.03, 0.199, 0.263, 0.016),
    "bert": (0.980, 2.71, 0.369, 0.011, 0.011),
}
"""Twelve layers of width 256, drawn by transformers: gradient of the last layer / first, global
norm, clipping factor, share of the first layer, of the last. Means of three seeds of plain
autograd, random labels."""


BODY = {"hidden_size": 256, "num_hidden_layers": 12, "num_attention_heads": 4, "vocab_size": 512}
BUILT = {
    "gpt2": lambda: GPT2LMHeadModel(GPT2Config(n_embd=256, n_head=4, vocab_size=512)),
    "llama": lambda: LlamaForCausalLM(LlamaConfig(**BODY, intermediate_size=688)),
    "bert": lambda: BertForMaskedLM(BertConfig(**BODY, intermediate_size=1024)),
}


def measure_seed(name: str, seed: int) -> tuple[float, ...]:
    """The row of one seed."""
    torch.manual_seed(seed)
    model = BUILT[name]().eval()
    ids, labels = torch.randint(0, 512, (2, 4, 32))
    shift = 0 if name == "bert" else 1

    def of(out: Any) -> tuple[torch.Tensor, int]:
        scores = out.logits[:, : 32 - shift].flatten(0, 1)
        return cross_entropy(scores, labels[:, shift:].flatten()), len(scores)

    objective = Objective("causal-lm", "random labels", Batch(inputs={"input_ids": ids}), of)
    seen = compute_gradients(model, objective, 1.0)
    layers = [share for g, share in seen.groups.items() if g.rpartition(".")[2].isdigit()]
    ratio = math.sqrt(layers[-1] / layers[0])
    return ratio, seen.global_norm, seen.clipping.factor, layers[0], layers[-1]


@pytest.mark.slow
@pytest.mark.parametrize("name", AT_INITIALISATION)
def test_models_at_initialisation(name: str) -> None:
    rows = [measure_seed(name, seed) for seed in range(3)]
    assert np.mean(rows, axis=0) == pytest.approx(AT_INITIALISATION[name], rel=0.04, abs=0.001)
