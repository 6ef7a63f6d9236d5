"""Jacobians of transformers' own layer modules at one token: hooks, torch.func.jacrev, float64."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import nn
from transformers import Cache

Array = np.ndarray


class Layers:
    """A float64 copy of a model with plain attention, and how each of some layers was called."""

    def __init__(self, model: nn.Module, inputs: dict, paths: Sequence[str], token: int) -> None:
        self.model = copy.deepcopy(model).double().eval()
        if hasattr(self.model, "set_attn_implementation"):
            self.model.set_attn_implementation("eager")
        self.layers = [self.model.get_submodule(path) for path in paths]
        self.token = token
        self.calls: list[tuple[tuple, dict]] = []
        handles = [
            layer.register_forward_pre_hook(self._called, with_kwargs=True) for layer in self.layers
        ]
        with torch.no_grad():
            self.model(**inputs)
        for handle in handles:
            handle.remove()

    def _called(self, module: nn.Module, args: tuple, kwargs: dict) -> None:
        # With a cache, a second call would see the keys twice.
        plain = {key: None if isinstance(v, Cache) else v for key, v in kwargs.items()}
        self.calls.append((tuple(None if isinstance(a, Cache) else a for a in args), plain))

    def entering(self, k: int) -> torch.Tensor:
        """The stream as layer k was given it."""
        args, kwargs = self.calls[k]
        return args[0] if args else kwargs["hidden_states"]

    def jacobian(self, first: int, last: int) -> Array:
        """d(out of layer last - 1)/d(into layer first), both at the token."""
        calls = list(zip(self.layers, self.calls, strict=True))

        def through(x: torch.Tensor) -> torch.Tensor:
            for layer, (args, kwargs) in calls[first:last]:
                if args:
                    x = layer(x, *args[1:], **kwargs)
                else:
                    x = layer(**{**kwargs, "hidden_states": x})
                x = x[0] if isinstance(x, tuple) else x
            return x

        return at_token(through, self.entering(first), self.token)


def at_token(function: Callable, x: torch.Tensor, token: int) -> Array:
    """The Jacobian of `function` (1, positions, H) -> the same, between values of one token."""

    def own(row: torch.Tensor) -> torch.Tensor:
        whole = torch.cat([x[:, :token], row[None, None], x[:, token + 1 :]], 1)
        return function(whole)[0, token]

    return torch.func.jacrev(own)(x[0, token]).detach().numpy()


def numbers(jacobian: Array, zeros: int) -> dict[str, Any]:
    """What a report must say of it."""
    values = np.linalg.svd(jacobian, compute_uv=False)
    shares = values[values > 0] / values.sum()
    kept = values[: len(values) - zeros]
    return {
        "sigma_max": values[0],
        "sigma_min": kept[-1],
        "kappa": values[0] / kept[-1],
        "mean_square": np.square(jacobian).sum() / len(jacobian),
        "effective_rank": np.exp(-(shares * np.log(shares)).sum()),
        "quantiles": np.percentile(kept, (5, 25, 50, 75, 95)),
    }


def distance(jacobian: Array) -> float:
    """||J - I||_2."""
    return np.linalg.norm(jacobian - np.eye(len(jacobian)), 2)
