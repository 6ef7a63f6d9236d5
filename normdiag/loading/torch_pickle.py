"""`.bin`, `.pt` and `.pth` files, read by torch's restricted unpickler only."""

from __future__ import annotations

import pickle
import re
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch

from normdiag.errors import LoadError
from normdiag.loading.archive_records import check_storage_records, is_stored_archive
from normdiag.loading.describe_exception import describe_exception

_FORBIDDEN = re.compile(r"GLOBAL (\S+)")


def read_torch_pickle(path: Path) -> dict[str, torch.Tensor]:
    """Read the tensors of `path` by name, those of nested dictionaries under dotted names.

    The data of a zip archive is memory-mapped. Raises LoadError, without executing code, for a
    pickle that holds more than tensors and plain containers.
    """
    mapped = is_stored_archive(path) or None
    if mapped:
        check_storage_records(path)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about old pickle protocols
            content = torch.load(path, map_location="cpu", weights_only=True, mmap=mapped)
    except pickle.UnpicklingError as error:
        raise _unpickling_error(path, error) from error
    except Exception as error:
        raise LoadError(
            f"{path} cannot be read: {describe_exception(error)}",
            "the file is damaged or was not written by torch.save; copy or download it again",
        ) from error
    tensors = dict(_flatten_tensors(content, ""))
    if not tensors:
        raise LoadError(f"{path} holds a {type(content).__name__} and no tensors")
    return tensors


def _unpickling_error(path: Path, error: pickle.UnpicklingError) -> LoadError:
    named = _FORBIDDEN.search(str(error))
    reason = f"it refers to {named[1]}" if named else describe_exception(error)
    return LoadError(
        f"{path} is a pickle that holds more than tensors ({reason}); it was not unpickled",
        "unpickling can run code: if you trust the file, load it yourself and save its state dict "
        "as .safetensors",
    )


def _flatten_tensors(content: Any, prefix: str) -> Iterator[tuple[str, torch.Tensor]]:
    if isinstance(content, torch.Tensor):
        yield prefix or "tensor", content.detach()
    elif isinstance(content, Mapping):
        for key, value in content.items():
            yield from _flatten_tensors(value, f"{prefix}.{key}" if prefix else str(key))
