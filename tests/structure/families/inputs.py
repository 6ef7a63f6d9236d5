"""The tensors that a family's forward takes, from a description that fits in one line.

`{"ids": [2, 8]}` draws token ids, `{"normal": [1, 3, 32, 32]}` and `{"uniform": ..}` floats,
`{"ones": ..}` and `{"true": ..}` fill, `{"join": [a, b]}` puts tensors side by
side; lists are literal, everything else is passed on.
"""

from __future__ import annotations

from typing import Any

import torch


def build_inputs(description: dict[str, Any]) -> dict[str, Any]:
    """The keyword arguments of the forward, the same at every call."""
    draws = torch.Generator().manual_seed(0)
    return {name: _value(given, draws) for name, given in description.items()}


def _value(given: Any, draws: torch.Generator) -> Any:
    if isinstance(given, list):
        return torch.tensor(given)
    if not isinstance(given, dict):
        return given
    ((kind, what),) = given.items()
    if kind == "ids":
        return torch.randint(10, 70, what, generator=draws)
    if kind == "normal":
        return torch.randn(what, generator=draws)
    if kind == "uniform":
        return torch.rand(what, generator=draws)
    if kind == "ones":
        return torch.ones(what)
    if kind == "true":
        return torch.ones(what, dtype=torch.bool)
    if kind == "join":
        return torch.cat([_value(part, draws) for part in what], -1)
    raise ValueError(f"{kind!r} is no kind of input")
