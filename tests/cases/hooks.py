"""What plain hooks see of the blocks of a checkpoint, in float64."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import transformers
from torch import nn
from transformers import AutoConfig, AutoModelForCausalLM


@dataclass
class Seen:
    """Root mean squares of the stream, padding left out."""

    entering: list[float] = field(default_factory=list)
    leaving: float = float("nan")
    largest: float = float("nan")


def blocks_seen(directory: Path, inputs: dict[str, Any], path: str) -> Seen:
    """One forward of transformers' own model, each call of `path`.<number> watched."""
    model, seen = load_model(directory), Seen()
    mask = inputs.get("attention_mask")

    def tokens(value: Any) -> torch.Tensor:
        value = value if isinstance(value, torch.Tensor) else value[0]
        return (value if mask is None else value[mask.bool()]).double()

    def hook(module: nn.Module, args: Any, named: dict[str, Any], output: Any) -> None:
        given = args[0] if args else named["hidden_states"]
        seen.entering.append(rms(tokens(given)))
        seen.leaving, seen.largest = rms(tokens(output)), float(tokens(output).abs().max())

    for name, module in model.named_modules():
        if re.fullmatch(re.escape(path) + r"\.\d+", name):
            module.register_forward_hook(hook, with_kwargs=True)
    with torch.no_grad():
        model(**inputs)
    return seen


def rms(values: torch.Tensor) -> float:
    return float(values.square().mean().sqrt())


def load_model(directory: Path) -> nn.Module:
    own = (directory / "modeling.py").exists()
    config = AutoConfig.from_pretrained(directory, trust_remote_code=own)
    kind = AutoModelForCausalLM if own else getattr(transformers, config.architectures[0])
    more = {"trust_remote_code": True} if own else {}
    return kind.from_pretrained(directory, **more).eval()
