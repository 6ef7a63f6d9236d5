"""Nested tensors, which are refused: their sequences have a length each and no common shape."""

from __future__ import annotations

import torch

from normdiag.errors import RunError


def refuse_nested_value(tensor: torch.Tensor, op: str, module: str, *, is_data: bool) -> None:
    """Refuse a nested tensor of numbers that derive from the model's inputs.

    Jagged ones of whole numbers (lengths, offsets) and weights pass; the others have no sizes.

    Args:
        tensor: what `op` computed.
        op: the name of the operation.
        module: path of the module that ran.
        is_data: whether it derives from the inputs.

    Raises:
        RunError: it is such a tensor; the message says where it was met.
    """
    if not tensor.is_nested:
        return
    if tensor.layout != torch.strided and not (is_data and tensor.is_floating_point()):
        return
    raise RunError(
        f"{module or 'the model'} computes with a nested tensor (torch.nested), first at {op}: "
        "its sequences have no common shape, so tokens cannot be told apart",
        "pass a padded batch with a mask, and have the model compute on it as it is; "
        "to_padded_tensor(0.0) makes one of a nested tensor",
    )
