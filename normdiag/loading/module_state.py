"""The tensors of a module's state dict, including torch's quantised layers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from normdiag.loading.offloaded_weights import WeightReader

if TYPE_CHECKING:
    import torch
    from torch import nn


def iterate_module_state(model: nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    """Iterate over the tensors of the state dict; as ordinary ones (quantised: dequantised).

    torch's quantised layers store a packed (weight, bias) and a dtype in it.
    """
    reader = WeightReader(model)
    for name, value in model.state_dict().items():
        yield from _iterate_value(name, value, reader)


def _iterate_value(
    name: str, value: Any, reader: WeightReader
) -> Iterator[tuple[str, torch.Tensor]]:
    import torch

    from normdiag.loading.plain_values import plain_values

    if isinstance(value, torch.Tensor):
        yield name, plain_values(name, reader.read_values(name, value))
    elif isinstance(value, (tuple, list)):
        for i, item in enumerate(value):
            yield from _iterate_value(f"{name}.{i}", item, reader)
