"""Inputs that the user gives: Python values, or a file of them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file

from normdiag.errors import UsageError
from normdiag.inputs.batch import Batch
from normdiag.inputs.input_requirements import InputRequirements
from normdiag.inputs.text_inputs import token_texts

_FORMS = "a dict of forward's arguments, a tuple of them, a tensor, or a list of these"


def batches_from_inputs(
    inputs: Any, requirements: InputRequirements | None = None
) -> tuple[Batch, ...]:
    """Batches from a dict, a tuple or a tensor for one forward, or a list of these for several.

    With `requirements`, tensors are moved to the model's device and positional arguments get their
    names; otherwise everything is passed on unchanged. Raises UsageError for anything else.
    """
    device = None if requirements is None else requirements.device
    tokenizer = None if requirements is None else requirements.tokenizer
    special_ids = frozenset() if requirements is None else requirements.special_ids
    batches: list[Batch] = []
    row = 0
    for forward in inputs if isinstance(inputs, list) else [inputs]:
        args, named = _split_arguments(forward, device)
        if requirements is not None:
            args, named = requirements.name_arguments(args, named)
        ids = _find_token_ids(args, named)
        size = _batch_size(args, named)
        batches.append(
            Batch(
                inputs=named,
                args=args,
                rows=tuple(range(row, row + size)),
                ids=ids,
                tokens=tuple(token_texts(tokenizer, sequence) for sequence in ids or ()),
                special=tuple(
                    tuple(token in special_ids for token in sequence) for sequence in ids or ()
                ),
            )
        )
        row += size
    if not batches:
        raise UsageError("the list of inputs is empty", f"inputs are {_FORMS}")
    return tuple(batches)


def read_inputs_file(path: Path, float_dtype: torch.dtype = torch.float32) -> Any:
    """Read a .safetensors or JSON file into what `batches_from_inputs` takes.

    In JSON an object is one forward and an array of objects several; lists become tensors.
    Integers and booleans keep their type, numbers with a point become `float_dtype`, and scalars
    are passed as they are. Raises UsageError, naming the file, for anything else.
    """
    if path.suffix not in (".safetensors", ".json"):
        raise UsageError(
            f"inputs {path} have the unknown suffix {path.suffix!r}",
            "give a .safetensors or .json file",
        )
    try:
        if path.suffix == ".safetensors":
            return load_file(path)
        content = json.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise UsageError(f"inputs {path} cannot be read: {error.strerror}") from error
    except (SafetensorError, ValueError, RecursionError) as error:
        raise UsageError(f"inputs {path} cannot be read: {error}") from error
    forwards = content if isinstance(content, list) else [content]
    if not all(isinstance(forward, dict) for forward in forwards):
        raise UsageError(
            f"inputs {path} hold a JSON value that is no object",
            "give an object whose keys are arguments of forward, or an array of such objects",
        )
    parsed = [
        {key: _parse_value(path, key, value, float_dtype) for key, value in forward.items()}
        for forward in forwards
    ]
    return parsed if isinstance(content, list) else parsed[0]


def _parse_value(path: Path, key: str, value: Any, float_dtype: torch.dtype) -> Any:
    if not isinstance(value, list):
        return value
    try:
        tensor = torch.tensor(value)
    except (ValueError, TypeError, RuntimeError) as error:
        raise UsageError(
            f"inputs {path}: {key} cannot be converted to a tensor ({error})",
            "lists must be of numbers or booleans and of equal length",
        ) from error
    return tensor.to(float_dtype) if tensor.is_floating_point() else tensor


def _split_arguments(forward: Any, device: torch.device | None) -> tuple[Any, dict[str, Any]]:
    """Positional and named arguments of one forward, with tensors on `device`."""
    if isinstance(forward, Mapping) and all(isinstance(key, str) for key in forward):
        return (), {key: _move_tensor(value, device) for key, value in forward.items()}
    if isinstance(forward, tuple):
        return tuple(_move_tensor(value, device) for value in forward), {}
    if isinstance(forward, torch.Tensor):
        return (_move_tensor(forward, device),), {}
    raise UsageError(
        f"inputs of type {type(forward).__name__} cannot be passed to forward",
        f"inputs are {_FORMS}",
    )


def _move_tensor(value: Any, device: torch.device | None) -> Any:
    if isinstance(value, torch.Tensor) and value.is_nested:
        raise UsageError(
            "the inputs hold a nested tensor (torch.nested), whose sequences have no common shape",
            "pass a padded batch, nested.to_padded_tensor(0.0), with a mask of what is padding",
        )
    if isinstance(value, torch.Tensor) and device is not None and not value.is_meta:
        return value.to(device)
    return value


def _find_token_ids(
    args: tuple[Any, ...], named: dict[str, Any]
) -> tuple[tuple[int, ...], ...] | None:
    """The rows of `input_ids`, or of an only argument that is a matrix of integers."""
    values = [*args, *named.values()]
    ids = named.get("input_ids", values[0] if len(values) == 1 else None)
    if not isinstance(ids, torch.Tensor) or ids.ndim != 2 or ids.dtype is torch.bool:
        return None
    if ids.is_meta or ids.is_floating_point() or ids.is_complex():
        return None
    return tuple(tuple(row) for row in ids.tolist())


def _batch_size(args: tuple[Any, ...], named: dict[str, Any]) -> int:
    """The first dimension of the first tensor, or 1 where that is a vector or scalar."""
    for value in (*args, *named.values()):
        if isinstance(value, torch.Tensor):
            return int(value.shape[0]) if value.ndim > 1 else 1
    return 1
