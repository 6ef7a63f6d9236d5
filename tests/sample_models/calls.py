"""What plain forward hooks see of a sample model, in float64 numpy, and what follows from it."""

from __future__ import annotations

import importlib
import re
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import nn


class Call(NamedTuple):
    """One call of one module, in the order in which they ended."""

    name: str
    module: nn.Module
    x: np.ndarray
    y: np.ndarray


def factory(target: str) -> Any:
    module, name = target.split(":")
    return getattr(importlib.import_module(f"sample_models.{module}"), name)


def run(target: str) -> list[Call]:
    """Every module call of one forward, by hooks."""
    model, inputs = factory(target)()
    calls: list[Call] = []

    def keep(name: str) -> Any:
        def hook(module: nn.Module, args: tuple[Any, ...], y: torch.Tensor) -> None:
            calls.append(Call(name, module, args[0].double().numpy(), y.double().numpy()))

        return hook

    for name, module in model.named_modules():
        module.register_forward_hook(keep(name))
    with torch.no_grad():
        model(inputs)
    return calls


def blocks(calls: list[Call], prefix: str) -> list[Call]:
    """The calls of the repeated layers: `blocks.0`, `blocks.1`, .. or one module many times."""
    return [c for c in calls if re.fullmatch(rf"{prefix}(\.\d+)?", c.name)]


def norms(calls: list[Call]) -> list[Call]:
    return [
        c
        for c in calls
        if "Norm" in type(c.module).__name__
        and list(c.module.parameters())
        and not list(c.module.children())
    ]


def size(x: np.ndarray) -> np.ndarray:
    return np.linalg.norm(x, axis=-1)


def update_ratios(layers: list[Call]) -> list[float]:
    return [float(np.median(size(c.y - c.x) / size(c.x))) for c in layers]


def cosines(layers: list[Call]) -> list[float]:
    return [
        float(np.median(((c.y - c.x) * c.x).sum(-1) / size(c.x) / size(c.y - c.x))) for c in layers
    ]


def out_norms(layers: list[Call]) -> np.ndarray:
    return np.array([size(c.y).mean() for c in layers])
