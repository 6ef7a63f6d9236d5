"""Tiny checkpoints of transformers families with weights of a sound size, written to a folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
import transformers
from torch import nn

SIZES = {
    "hidden_size": 32,
    "num_hidden_layers": 4,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "intermediate_size": 48,
    "vocab_size": 64,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}


def make_model(family: str, head: str = "ForCausalLM", /, **settings: Any) -> nn.Module:
    """A model of `family` ("Llama"): unit embeddings, matrices that keep the size, gains of 1."""
    config = getattr(transformers, f"{family}Config")
    sizes = SIZES if "hidden_size" not in settings and "n_embd" not in settings else {}
    torch.manual_seed(0)
    model = getattr(transformers, f"{family}{head}")(config(**{**sizes, **settings}))
    draws = torch.Generator().manual_seed(1)
    tied = set()
    for module in model.modules():
        weight = getattr(module, "weight", None)
        if id(weight) in tied:
            continue
        tied.add(id(weight))
        if isinstance(module, nn.Embedding):
            nn.init.normal_(weight, 0, 0.1 if len(weight) <= 32 else 1, generator=draws)
        elif isinstance(module, nn.Linear):
            nn.init.normal_(weight, 0, module.in_features**-0.5, generator=draws)
    return model


def save(
    model: nn.Module, directory: Path, dtype: torch.dtype | None = None, **options: Any
) -> None:
    """Write it, in another precision where one is given."""
    (model if dtype is None else model.to(dtype)).save_pretrained(directory, **options)


def change_config(directory: Path, **changes: Any) -> None:
    """Write keys of config.json anew; None takes one away."""
    path = directory / "config.json"
    fields = json.loads(path.read_text()) | changes
    path.write_text(json.dumps({k: v for k, v in fields.items() if v is not None}))


def ids(count: int = 8, vocabulary: int = 64, low: int = 3) -> dict[str, torch.Tensor]:
    """Seeded token ids, none of them special."""
    draws = torch.Generator().manual_seed(7)
    return {"input_ids": torch.randint(low, vocabulary, (1, count), generator=draws)}


def norms(model: nn.Module) -> list[nn.Module]:
    """Modules that hold one vector called weight: the norms of the families used here."""
    return [
        module
        for module in model.modules()
        if not list(module.children())
        and isinstance(weight := getattr(module, "weight", None), nn.Parameter)
        and weight.ndim == 1
    ]


def writes_upwards(mlp: nn.Module, channel: int, size: float) -> None:
    """A gated branch that writes to one channel, never a negative amount: z silu(z) >= 0."""
    with torch.no_grad():
        mlp.up_proj.weight.copy_(mlp.gate_proj.weight)
        mlp.down_proj.weight.zero_()[channel] = size
