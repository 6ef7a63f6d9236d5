"""The tensors of a checkpoint as stored, one at a time."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from safetensors import SafetensorError, safe_open

from normdiag.errors import LoadError
from normdiag.loading.safetensors_header import read_safetensors_header
from normdiag.loading.torch_pickle import read_torch_pickle
from normdiag.loading.weight_files import FileFormat, WeightFiles

if TYPE_CHECKING:
    from normdiag.loading.interface import TensorReader


_DTYPES = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
}
"""The dtypes in which models are run."""


def stored_tensors(weights: WeightFiles) -> TensorReader:
    """A reader of the tensors of `weights`, with names, dtypes and shapes as stored."""
    if weights.format == "safetensors":
        return lambda resident: _iterate_safetensors(weights, resident)
    return lambda resident: _iterate_pickles(weights)


def stored_shapes(weights: WeightFiles) -> dict[str, tuple[int, ...]]:
    """Names and shapes of the tensors of `weights`: of headers alone, or of mapped archives."""
    if weights.format == "safetensors":
        headers = [read_safetensors_header(path) for path in weights.paths]
        return {name: entry.shape for header in headers for name, entry in header.items()}
    return {name: tuple(tensor.shape) for name, tensor in _iterate_pickles(weights)}


def list_tensors(kind: FileFormat, path: Path) -> list[str]:
    """The names of the tensors of one file."""
    return list(read_safetensors_header(path) if kind == "safetensors" else read_torch_pickle(path))


def read_named_tensors(
    kind: FileFormat, path: Path, names: Collection[str]
) -> Iterator[tuple[str, torch.Tensor]]:
    """The tensors of these names in one file, which is opened once."""
    if kind == "safetensors":
        with _open_safetensors(path) as file:
            yield from ((name, _read_tensor(path, file, name, None)) for name in names)
    else:
        content = read_torch_pickle(path)
        yield from ((name, content[name]) for name in names)


def _iterate_safetensors(
    weights: WeightFiles, resident: Mapping[str, torch.Tensor]
) -> Iterator[tuple[str, torch.Tensor]]:
    for path in weights.paths:
        with _open_safetensors(path) as file:
            for name in file.keys():  # noqa: SIM118  (the file is not a mapping)
                yield name, _read_tensor(path, file, name, resident.get(name))


def _open_safetensors(path: Path) -> Any:
    try:
        return safe_open(path, framework="pt")
    except SafetensorError as error:
        raise LoadError(
            f"{path} cannot be read: {error}", "the file is damaged; copy or download it again"
        ) from error


def _read_tensor(path: Path, file: Any, name: str, loaded: torch.Tensor | None) -> torch.Tensor:
    try:
        if loaded is not None and _is_loaded_unchanged(file.get_slice(name), loaded):
            return loaded
        tensor: torch.Tensor = file.get_tensor(name)
    except (SafetensorError, KeyError, AttributeError) as error:
        raise LoadError(f"{path}: tensor {name} cannot be read ({error})") from error
    return tensor


def _is_loaded_unchanged(stored: Any, loaded: torch.Tensor) -> bool:
    return (
        loaded.device.type == "cpu"
        and _DTYPES.get(stored.get_dtype()) is loaded.dtype
        and stored.get_shape() == list(loaded.shape)
    )


def _iterate_pickles(weights: WeightFiles) -> Iterator[tuple[str, torch.Tensor]]:
    for path in weights.paths:
        yield from read_torch_pickle(path).items()
