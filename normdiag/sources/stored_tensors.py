"""Every tensor of a checkpoint as it lies on disk, one at a time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import torch
from safetensors import SafetensorError, safe_open

from normdiag.errors import LoadError
from normdiag.sources.torch_pickle import read_pickle
from normdiag.sources.weight_files import WeightFiles

if TYPE_CHECKING:
    from normdiag.sources.interface import Tensors


def stored_tensors(weights: WeightFiles) -> Tensors:
    """A function that goes over the tensors of `weights`: names, dtypes and shapes as stored."""
    walk = _safetensors if weights.format == "safetensors" else _pickles
    return lambda: walk(weights)


def _safetensors(weights: WeightFiles) -> Iterator[tuple[str, torch.Tensor]]:
    for path in weights.paths:
        with safe_open(path, framework="pt") as file:
            for name in file.keys():  # noqa: SIM118  (the file is no mapping)
                try:
                    yield name, file.get_tensor(name)
                except (SafetensorError, KeyError, AttributeError) as error:
                    raise LoadError(f"{path}: tensor {name} cannot be read ({error})") from error


def _pickles(weights: WeightFiles) -> Iterator[tuple[str, torch.Tensor]]:
    for path in weights.paths:
        yield from read_pickle(path).items()
