"""Tensors that lie in several files of one checkpoint, with different values."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import torch
from safetensors import safe_open

from normdiag.evidence.subject import StoredTwice
from normdiag.loading.safetensors_header import read_safetensors_header
from normdiag.loading.torch_pickle import read_torch_pickle
from normdiag.loading.weight_files import WeightFiles


def find_stored_twice(weights: WeightFiles | None) -> tuple[StoredTwice, ...]:
    """In the order of the files. Which copy a loader takes is up to the loader.

    Only what several files name is read, and equal copies do no harm.
    """
    if weights is None or len(weights.paths) < 2:
        return ()
    files: dict[str, list[Path]] = defaultdict(list)
    for path in weights.paths:
        for name in _list_tensors(weights.format, path):
            files[name].append(path)
    return tuple(
        StoredTwice(tensor=name, files=tuple(path.name for path in paths))
        for name, paths in files.items()
        if len(paths) > 1 and _differ([_read_tensor(weights.format, p, name) for p in paths])
    )


def _list_tensors(kind: str, path: Path) -> list[str]:
    return list(read_safetensors_header(path) if kind == "safetensors" else read_torch_pickle(path))


def _read_tensor(kind: str, path: Path, name: str) -> torch.Tensor:
    if kind != "safetensors":
        return read_torch_pickle(path)[name]
    with safe_open(path, framework="pt") as file:
        tensor: torch.Tensor = file.get_tensor(name)
    return tensor


def _differ(copies: list[torch.Tensor]) -> bool:
    first = copies[0]
    return any(
        other.shape != first.shape
        or other.dtype != first.dtype
        or not torch.equal(_bytes_of(other), _bytes_of(first))
        for other in copies[1:]
    )


def _bytes_of(tensor: torch.Tensor) -> torch.Tensor:
    """Bit by bit: NaN equals itself."""
    return tensor.contiguous().reshape(-1).view(torch.uint8)
