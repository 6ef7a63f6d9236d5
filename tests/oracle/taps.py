"""What went into and came out of modules named by a test: forward hooks, float64 copies."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import nn

Array = np.ndarray


@dataclass
class Seen:
    """One forward: per module name and call, its tensor arguments and its first tensor result."""

    mask: dict[str, Array]
    arguments: dict[str, list[list[Array]]] = field(default_factory=lambda: defaultdict(list))
    results: dict[str, list[Array]] = field(default_factory=lambda: defaultdict(list))

    def into(self, module: str, call: int = 0, argument: int = 0) -> Array:
        """The given tensor argument of the given call, (batch, position, feature)."""
        return self.arguments[module][call][argument]

    def out_of(self, module: str, call: int = 0) -> Array:
        """The result of the given call, (batch, position, feature)."""
        return self.results[module][call]


def observe(model: nn.Module, batches: Sequence[dict], modules: Iterable[str]) -> list[Seen]:
    """Run each batch through `model` once, with hooks on `modules` only."""
    modules = list(modules)
    return [_forward(model, batch, modules) for batch in batches]


def _forward(model: nn.Module, batch: dict, modules: list[str]) -> Seen:
    seen = Seen({key: np.asarray(value) for key, value in batch.items() if key.endswith("mask")})

    def hook_for(name: str):
        def hook(_module, args, kwargs, result):
            tensors = [a for a in (*args, *kwargs.values()) if isinstance(a, torch.Tensor)]
            seen.arguments[name].append([_float64(t) for t in tensors if t.is_floating_point()])
            seen.results[name].append(_float64(result if torch.is_tensor(result) else result[0]))

        return hook

    handles = [
        model.get_submodule(name).register_forward_hook(hook_for(name), with_kwargs=True)
        for name in modules
    ]
    try:
        with torch.no_grad():
            model(**batch)
    finally:
        for handle in handles:
            handle.remove()
    return seen


def _float64(tensor: torch.Tensor) -> Array:
    return tensor.detach().double().numpy().copy()
