"""Every tensor that a module holds, in layers with a state of their own kind too."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch
    from torch import nn


def iterate_module_state(model: nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    """The state dict, tensors only; a quantised tensor as the values that it stands for.

    torch's quantised layers keep a packed (weight, bias) and a dtype there.
    """
    for name, value in model.state_dict().items():
        yield from _iterate_value(name, value)


def _iterate_value(name: str, value: Any) -> Iterator[tuple[str, torch.Tensor]]:
    import torch

    if isinstance(value, torch.Tensor):
        detached = value.detach()
        yield name, detached.dequantize() if detached.is_quantized else detached
    elif isinstance(value, (tuple, list)):
        for i, item in enumerate(value):
            yield from _iterate_value(f"{name}.{i}", item)
