"""Tensors that lie in several files of one checkpoint, with different values."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from pathlib import Path

import torch

from normdiag.evidence.subject import StoredTwice
from normdiag.loading.plain_values import plain_values
from normdiag.loading.stored_tensors import list_tensors, read_named_tensors
from normdiag.loading.weight_files import WeightFiles


def find_stored_twice(weights: WeightFiles | None) -> tuple[StoredTwice, ...]:
    """In the order of the files. Which copy a loader takes is up to the loader.

    Only what several files name is read, one tensor at a time, and equal copies do no harm.
    """
    if weights is None or len(weights.paths) < 2:
        return ()
    files: dict[str, list[Path]] = defaultdict(list)
    for path in weights.paths:
        for name in list_tensors(weights.format, path):
            files[name].append(path)
    copies: dict[str, set[bytes]] = defaultdict(set)
    for path in weights.paths:
        if repeated := [name for name, paths in files.items() if len(paths) > 1 and path in paths]:
            for name, tensor in read_named_tensors(weights.format, path, repeated):
                copies[name].add(_digest_of(name, tensor))
    return tuple(
        StoredTwice(tensor=name, files=tuple(path.name for path in paths))
        for name, paths in files.items()
        if len(copies.get(name, ())) > 1
    )


def _digest_of(name: str, tensor: torch.Tensor) -> bytes:
    """Of dtype, shape and values bit by bit: NaN equals itself."""
    plain = plain_values(name, tensor)
    digest = hashlib.sha256(f"{tensor.dtype}{tuple(tensor.shape)}".encode())
    digest.update(plain.contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return digest.digest()
