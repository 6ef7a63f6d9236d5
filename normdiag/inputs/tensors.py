"""The tensors among the arguments of a forward, however they are nested."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import torch
from torch.utils._pytree import tree_map_only

from normdiag.inputs.batch import Batch


def iterate_tensors(name: str, value: Any) -> Iterator[tuple[str, torch.Tensor]]:
    """Every tensor in `value`, with the name of the argument or output that it belongs to."""
    if isinstance(value, torch.Tensor):
        yield name, value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from iterate_tensors(name, item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from iterate_tensors(name, item)


def iterate_input_tensors(batch: Batch) -> Iterator[tuple[str, torch.Tensor]]:
    """Every tensor among the arguments of forward, in their order, with the argument's name."""
    for name, value in batch.named_arguments.items():
        yield from iterate_tensors(name, value)


def map_input_tensors(batch: Batch, function: Callable[[torch.Tensor], torch.Tensor]) -> Batch:
    """The batch with `function` applied to every tensor among the arguments of forward."""
    args, inputs = tree_map_only(torch.Tensor, function, (batch.args, dict(batch.inputs)))
    return replace(batch, args=args, inputs=inputs)
