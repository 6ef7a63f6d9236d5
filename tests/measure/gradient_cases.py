"""Models whose gradients a person who knows them can take by hand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn.functional import cross_entropy
from transformers import (
    AlbertConfig,
    AlbertForMaskedLM,
    BertConfig,
    BertForMaskedLM,
    BertModel,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    T5Config,
    T5ForConditionalGeneration,
)

from normdiag.inputs.batch import Batch
from normdiag.measure.gradients.loss import choose_objective
from normdiag.measure.gradients.objectives import LossSettings, Objective

VOCABULARY, WIDTH = 61, 16
BERT = {
    "hidden_size": WIDTH,
    "num_hidden_layers": 3,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "vocab_size": VOCABULARY,
    "initializer_range": 0.2,
}
IDS = torch.randint(1, VOCABULARY, (1, 12), generator=torch.Generator().manual_seed(4))
MASK = 0
"""Stands for masked tokens; it is in no text."""
ROUNDING = 2e-5
"""Some norms of transformers compute in float32, whatever the model's dtype."""


@dataclass(frozen=True)
class Case:
    """A model, and what a person who knows it would differentiate and look at."""

    model: nn.Module
    inputs: dict[str, Any]
    kind: str
    norms: list[nn.Module]
    dropped: tuple[int, ...]
    """Of what the norms were given: those that are no result of an add."""
    loss: Callable[[Any], torch.Tensor]
    groups: set[str]
    of_norms: tuple[str, ...]
    """Some norms by id, where that is the path of their module."""


def llama() -> Case:
    config = LlamaConfig(
        hidden_size=WIDTH, intermediate_size=32, num_hidden_layers=3, num_attention_heads=2,
        num_key_value_heads=1, vocab_size=VOCABULARY, initializer_range=0.2,
    )  # fmt: skip
    model = LlamaForCausalLM(config)
    layers = model.model.layers
    norms = [n for layer in layers for n in (layer.input_layernorm, layer.post_attention_layernorm)]
    return Case(
        model,
        {"input_ids": IDS, "use_cache": False},
        "causal-lm",
        [*norms, model.model.norm],
        (0,),
        lambda out: cross_entropy(out.logits[0, :-1], IDS[0, 1:]),
        {"model.embed_tokens", "model.norm", "lm_head", *(f"model.layers.{i}" for i in range(3))},
        ("model.layers.1.input_layernorm", "model.norm"),
    )


def gpt2() -> Case:
    config = GPT2Config(
        n_embd=WIDTH, n_layer=3, n_head=2, n_positions=32, vocab_size=VOCABULARY,
        initializer_range=0.2, bos_token_id=1, eos_token_id=1,
    )  # fmt: skip
    model = GPT2LMHeadModel(config)
    body = model.transformer
    return Case(
        model,
        {"input_ids": IDS, "use_cache": False},
        "causal-lm",
        [*(n for block in body.h for n in (block.ln_1, block.ln_2)), body.ln_f],
        (0,),
        lambda out: cross_entropy(out.logits[0, :-1], IDS[0, 1:]),
        {"transformer.wte", "transformer.wpe", "transformer.ln_f"}
        | {f"transformer.h.{i}" for i in range(3)},
        ("transformer.h.2.ln_1", "transformer.ln_f"),
    )


def bert_norms(encoder: nn.Module) -> list[nn.Module]:
    return [
        n for layer in encoder.layer
        for n in (layer.attention.output.LayerNorm, layer.output.LayerNorm)
    ]  # fmt: skip


def at_masks(out: Any, masked: torch.Tensor) -> torch.Tensor:
    places = masked[0] == MASK
    return cross_entropy(out.logits[0, places], IDS[0, places])


def bert() -> Case:
    model = BertForMaskedLM(BertConfig(**BERT))
    return Case(
        model,
        {"input_ids": IDS},
        "masked-lm",
        bert_norms(model.bert.encoder),
        (),
        at_masks,
        {"bert.embeddings", "cls", *(f"bert.encoder.layer.{i}" for i in range(3))},
        ("bert.encoder.layer.1.output.LayerNorm", "bert.embeddings.LayerNorm"),
    )


def albert() -> Case:
    sizes = {**BERT, "embedding_size": 8}
    model = AlbertForMaskedLM(AlbertConfig(**sizes))
    layer = model.albert.encoder.albert_layer_groups[0].albert_layers[0]
    shared = "albert.encoder.albert_layer_groups.0.albert_layers.0"
    return Case(
        model,
        {"input_ids": IDS},
        "masked-lm",
        [layer.attention.LayerNorm, layer.full_layer_layer_norm],
        (),
        at_masks,
        {
            "albert.embeddings",
            "albert.encoder.embedding_hidden_mapping_in",
            "predictions",
            shared,
        },
        (f"{shared}.full_layer_layer_norm",),
    )


def t5() -> Case:
    config = T5Config(
        d_model=WIDTH, d_kv=8, d_ff=32, num_layers=2, num_heads=2, vocab_size=VOCABULARY,
        decoder_start_token_id=0,
    )  # fmt: skip
    model = T5ForConditionalGeneration(config)
    given = torch.cat([torch.zeros_like(IDS[:, :1]), IDS[:, :-1]], 1)
    sides = [(model.encoder, "encoder"), (model.decoder, "decoder")]
    norms = [
        n for side, _ in sides
        for n in (*(s.layer_norm for b in side.block for s in b.layer), side.final_layer_norm)
    ]  # fmt: skip
    return Case(
        model,
        {"input_ids": IDS, "decoder_input_ids": given, "use_cache": False},
        "sequence-to-sequence",
        norms,
        (0, 5),
        lambda out: cross_entropy(out.logits[0, :-1], IDS[0, :-1]),
        {"shared", "encoder.final_layer_norm", "decoder.final_layer_norm"}
        | {f"{side}.block.{i}" for _, side in sides for i in range(2)},
        ("decoder.block.1.layer.2.layer_norm", "encoder.final_layer_norm"),
    )


def encoder() -> Case:
    model = BertModel(BertConfig(**BERT), add_pooling_layer=False)
    r = torch.randn((1, 12, WIDTH), generator=torch.Generator().manual_seed(0)).double()
    return Case(
        model,
        {"input_ids": IDS},
        "random-projection",
        bert_norms(model.encoder),
        (),
        lambda out: (r * out.last_hidden_state).sum(-1).mean() / WIDTH**0.5,
        {"embeddings", *(f"encoder.layer.{i}" for i in range(3))},
        ("encoder.layer.0.attention.output.LayerNorm",),
    )


class Loop(nn.Module):
    """Layers that are no modules: 1 + w as a gain, lists of branches, a norm after all."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(VOCABULARY, WIDTH)
        self.branches = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(3))
        self.gains = nn.ParameterList(torch.randn(WIDTH) / 4 for _ in range(3))
        self.last = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.table(ids)
        for branch, gain in zip(self.branches, self.gains, strict=True):
            s = x.pow(2).mean(-1, keepdim=True)
            x = x + branch(x * torch.rsqrt(s + 1e-6) * (1 + gain))
        return self.head(self.last(x))


def loop() -> Case:
    return Case(
        Loop(),
        {"ids": IDS},
        "causal-lm",
        [],
        (),
        lambda out: cross_entropy(out[0, :-1], IDS[0, 1:]),
        {"table", "last", "head", "gains", *(f"branches.{i}" for i in range(3))},
        ("last",),
    )


CASES = {f.__name__: f for f in (llama, gpt2, bert, albert, t5, encoder, loop)}


def objective_of(model: nn.Module, inputs: dict, mask: int | None = MASK) -> Objective:
    batch = Batch(inputs=inputs, rows=(0,))
    return choose_objective(model, batch, LossSettings(mask_id=mask))
