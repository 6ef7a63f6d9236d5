"""The outputs of a model for its inputs: whole, to compare another model's, or as sums."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import nn

from normdiag.evidence.weights import TensorFingerprint
from normdiag.inputs.batch import Batch
from normdiag.inputs.padding import token_mask
from normdiag.inputs.tensors import iterate_tensors
from normdiag.measure.passes.model_call import call_model, quiet_model
from normdiag.numerics.finite_values import holds_finite_values
from normdiag.numerics.tensor_fingerprint import fingerprint_tensor

OutputTensors = dict[str, torch.Tensor]
"""Floating output tensors of one batch by name, each (rows, features), without padding."""


def compute_outputs(model: nn.Module, batches: Sequence[Batch]) -> tuple[OutputTensors, ...]:
    """Run each batch once more, plainly, and keep the outputs on the host."""
    with torch.no_grad(), quiet_model(model):
        outputs = (select_outputs(call_model(model, batch), batch) for batch in batches)
        return tuple({name: rows.cpu() for name, rows in each.items()} for each in outputs)


def fingerprint_outputs(output: Any, batch: Batch) -> dict[str, TensorFingerprint]:
    """Name -> sums of the rows of each output that is finite."""
    return {
        name: fingerprint_tensor(rows)
        for name, rows in select_outputs(output, batch).items()
        if holds_finite_values(rows)
    }


def select_outputs(output: Any, batch: Batch) -> OutputTensors:
    """Name -> rows of each floating output, without padding and without caches."""
    mask = token_mask(batch)
    if mask is not None and bool(mask.all()):  # logits are large: no copy of them
        mask = None
    return {
        name: _select_rows(tensor.detach(), mask)
        for name, tensor in _iterate_named(output)
        if tensor.is_floating_point() and tensor.numel() and not tensor.is_meta
    }


def _iterate_named(output: Any) -> Iterator[tuple[str, torch.Tensor]]:
    """Name each output by its key, or by its place; caches for later calls are left out."""
    if isinstance(output, torch.Tensor):
        yield "output", output
        return
    if isinstance(output, Mapping):
        items = [(str(key), value) for key, value in output.items()]
    else:
        items = [("output", output)]
    for key, value in items:
        tensors = [tensor for _, tensor in iterate_tensors(key, value)]
        if key != "past_key_values":
            for place, tensor in enumerate(tensors):
                yield key if len(tensors) == 1 else f"{key}[{place}]", tensor


def _select_rows(tensor: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor:
    if mask is not None and tensor.dim() > 2 and tensor.shape[:2] == mask.shape:
        return tensor[mask.to(tensor.device)].reshape(-1, tensor.shape[-1])
    return tensor.reshape(-1, tensor.shape[-1] if tensor.dim() > 1 else 1)
