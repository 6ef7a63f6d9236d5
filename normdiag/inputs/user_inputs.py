"""Exactly what the user gives: Python values, or a file of them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import nn

from normdiag.errors import UsageError
from normdiag.inputs.batch import Batch
from normdiag.inputs.requirements import by_name, dtype_and_device
from normdiag.inputs.text_inputs import token_texts

_FORMS = "a dict of forward's arguments, a tuple of them, a tensor, or a list of these"


def batches_from_inputs(
    inputs: Any, *, model: nn.Module | None = None, tokenizer: Any | None = None
) -> tuple[Batch, ...]:
    """Batches from a dict, a tuple or a tensor for one forward, or a list of these for several.

    With the model, tensors are moved to its device and positions are told by name; otherwise
    everything is passed as it is. Raises UsageError for anything else.
    """
    device = None if model is None else dtype_and_device(model)[1]
    made: list[Batch] = []
    row = 0
    for forward in inputs if isinstance(inputs, list) else [inputs]:
        args, named = _arguments(forward, device)
        if model is not None:
            args, named = by_name(model, args, named)
        ids = _ids(args, named)
        rows = _rows(args, named)
        made.append(
            Batch(
                inputs=named,
                args=args,
                rows=tuple(range(row, row + rows)),
                ids=ids,
                tokens=() if ids is None else tuple(token_texts(tokenizer, r) for r in ids),
                special=() if ids is None else tuple(_special(tokenizer, r) for r in ids),
            )
        )
        row += rows
    if not made:
        raise UsageError("the list of inputs is empty", f"inputs are {_FORMS}")
    return tuple(made)


def read_inputs_file(path: Path, float_dtype: torch.dtype = torch.float32) -> Any:
    """What `path` holds, as `from_inputs` takes it: a .safetensors file, or JSON.

    In JSON an object is one forward and an array of objects several; lists become tensors.
    Integers and booleans keep their type, numbers with a point are `float_dtype`, and single
    values stay as they are. Raises UsageError that says where the file is not that.
    """
    if path.suffix not in (".safetensors", ".json"):
        raise UsageError(f"inputs {path} are of unknown type", "give a .safetensors or .json file")
    try:
        if path.suffix == ".safetensors":
            return load_file(path)
        content = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"inputs {path} cannot be read: {error.strerror}") from error
    except (SafetensorError, ValueError, RecursionError) as error:
        raise UsageError(f"inputs {path} cannot be read: {error}") from error
    forwards = content if isinstance(content, list) else [content]
    if not all(isinstance(forward, dict) for forward in forwards):
        raise UsageError(
            f"inputs {path} hold no object", "an object of forward's arguments, or an array of them"
        )
    read = [
        {key: _tensor(path, key, value, float_dtype) for key, value in forward.items()}
        for forward in forwards
    ]
    return read if isinstance(content, list) else read[0]


def _tensor(path: Path, key: str, value: Any, float_dtype: torch.dtype) -> Any:
    if not isinstance(value, list):
        return value
    try:
        tensor = torch.tensor(value)
    except (ValueError, TypeError, RuntimeError) as error:
        raise UsageError(
            f"inputs {path}: {key} is no tensor ({error})",
            "lists must be of numbers or booleans and of equal length",
        ) from error
    return tensor.to(float_dtype) if tensor.is_floating_point() else tensor


def _arguments(forward: Any, device: torch.device | None) -> tuple[Any, dict[str, Any]]:
    if isinstance(forward, Mapping) and all(isinstance(key, str) for key in forward):
        return (), {key: _placed(value, device) for key, value in forward.items()}
    if isinstance(forward, tuple):
        return tuple(_placed(value, device) for value in forward), {}
    if isinstance(forward, torch.Tensor):
        return (_placed(forward, device),), {}
    raise UsageError(f"inputs hold a {type(forward).__name__}", f"inputs are {_FORMS}")


def _placed(value: Any, device: torch.device | None) -> Any:
    if isinstance(value, torch.Tensor) and device is not None and not value.is_meta:
        return value.to(device)
    return value


def _ids(args: tuple[Any, ...], named: dict[str, Any]) -> tuple[tuple[int, ...], ...] | None:
    """The rows of what looks like token ids: `input_ids`, or the only argument, whole numbers."""
    values = [*args, *named.values()]
    found = named.get("input_ids", values[0] if len(values) == 1 else None)
    if not isinstance(found, torch.Tensor) or found.ndim != 2 or found.dtype is torch.bool:
        return None
    if found.is_meta:
        return None
    if found.is_floating_point() or found.is_complex():
        return None
    return tuple(tuple(row) for row in found.tolist())


def _rows(args: tuple[Any, ...], named: dict[str, Any]) -> int:
    """The batch size: the first dimension of the first tensor that has more than one."""
    for value in (*args, *named.values()):
        if isinstance(value, torch.Tensor):
            return int(value.shape[0]) if value.ndim > 1 else 1
    return 1


def _special(tokenizer: Any | None, ids: tuple[int, ...]) -> tuple[bool, ...]:
    known = set(getattr(tokenizer, "all_special_ids", ()))
    return tuple(token in known for token in ids)
