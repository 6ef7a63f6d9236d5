"""The values of a tensor that is no ordinary one: quantised, sparse, or a subclass."""

from __future__ import annotations

from typing import Any

import torch

from normdiag.errors import LoadError
from normdiag.loading.describe_exception import describe_exception


def plain_values(name: str, tensor: torch.Tensor) -> torch.Tensor:
    """`tensor` as an ordinary dense one, detached: itself, or a copy that is dequantised.

    Raises:
        LoadError: a subclass that states no way to its values, or whose memory was freed.
    """
    detached = tensor.detach()
    if is_ordinary(detached):
        return detached
    if is_freed(detached):
        raise _unreadable_error(name, tensor, "its memory was freed")
    try:
        plain = _convert_values(detached)
    except Exception as error:  # whatever the subclass raises
        raise _unreadable_error(name, tensor, describe_exception(error)) from error
    if not is_ordinary(plain):
        raise _unreadable_error(name, tensor, "dequantize() gives no ordinary tensor")
    return plain


def is_freed(tensor: torch.Tensor) -> bool:
    """Whether the memory of an ordinary tensor was given back, so that reading it would crash."""
    has_memory = tensor.layout == torch.strided and not tensor.is_meta and not _is_wrapper(tensor)
    return has_memory and tensor.numel() > 0 and tensor.untyped_storage().nbytes() == 0


def _is_wrapper(tensor: torch.Tensor) -> bool:
    """Whether operations on it are its class's own, as of one that wraps others."""
    return type(tensor).__torch_dispatch__ is not torch.Tensor.__torch_dispatch__


def is_ordinary(tensor: torch.Tensor) -> bool:
    """Whether the values lie in the memory of `tensor` itself."""
    return (
        not tensor.is_quantized
        and tensor.layout == torch.strided
        and not tensor.is_nested
        and not _is_wrapper(tensor)
        and not is_freed(tensor)
    )


def _convert_values(tensor: Any) -> torch.Tensor:
    converted: torch.Tensor
    if tensor.is_nested:
        converted = _join_nested(tensor)
    elif not _is_wrapper(tensor):
        is_sparse = tensor.layout != torch.strided
        converted = tensor.to_dense() if is_sparse else tensor.dequantize()
    elif hasattr(type(tensor), "__tensor_flatten__") or not tensor.untyped_storage().data_ptr():
        converted = tensor.dequantize()  # its values lie in the tensors that it wraps
    else:
        converted = tensor.as_subclass(torch.Tensor)
    return converted.detach()


def _join_nested(tensor: torch.Tensor) -> torch.Tensor:
    """The parts behind each other, and no padding between them, which would be values of no part.

    Along the first axis where the others agree, else of one axis.
    """
    parts = tensor.unbind()
    is_ragged_once = len({part.shape[1:] for part in parts}) == 1
    return torch.cat(parts if is_ragged_once else [part.reshape(-1) for part in parts])


def _unreadable_error(name: str, tensor: torch.Tensor, why: str) -> LoadError:
    kind = type(tensor)
    return LoadError(
        f"{name} is a {kind.__module__}.{kind.__qualname__}, whose values cannot be read: {why}",
        "pass the model with ordinary tensors: before it is quantised, sharded or wrapped",
    )
