"""Does a model's output at a token depend on later tokens? Tried, not read off a mask."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import torch
from torch import nn

from normdiag.inputs.batch import Batch
from normdiag.inputs.padding import input_side, token_mask
from normdiag.inputs.tensors import iterate_tensors
from normdiag.measure.passes.model_call import call_model, quiet_model

_NOISE = 1e-5
"""A change of earlier outputs that is smaller than this share of the later ones' (or than the
resolution of their dtype) is rounding. Attention that is drawn small passes on 1e-3 or less."""


def floating_outputs(output: Any) -> list[torch.Tensor]:
    """The floating tensors that a forward gave back, in its order."""
    return [t for _, t in iterate_tensors("", output) if t.is_floating_point()]


def run_plain_forward(model: nn.Module, batch: Batch) -> list[torch.Tensor]:
    """The same of one forward without autograd."""
    with quiet_model(model), torch.no_grad():
        return floating_outputs(call_model(model, batch))


def input_tensor(batch: Batch, name: str) -> torch.Tensor | None:
    """The input of that name ("argument 0" where it has none), where it is one tensor."""
    value = batch.named_arguments.get(name)
    return value if isinstance(value, torch.Tensor) else None


def replace_input(batch: Batch, name: str, value: torch.Tensor) -> Batch:
    """The batch with another value of that input."""
    if name in batch.inputs:
        return replace(batch, inputs={**batch.inputs, name: value})
    place = int(name.removeprefix("argument "))
    return replace(batch, args=(*batch.args[:place], value, *batch.args[place + 1 :]))


def real_tokens(batch: Batch, name: str, shape: tuple[int, ...]) -> torch.Tensor:
    """True where a token of the input `name` is not padding, by its attention mask. `shape`."""
    mask = token_mask(batch, input_side(name))
    if mask is not None and mask.shape == shape:
        return mask
    return torch.ones(shape, dtype=torch.bool)


def reads_ahead(model: nn.Module, batch: Batch, name: str, which: int) -> bool | None:
    """Whether output `which`, (.., tokens, features), at earlier tokens moves with the last one.

    Another token is put there, of the same text where that has two. None where outputs are not
    finite: then no change can be detected.
    """
    ids = input_tensor(batch, name)
    assert ids is not None
    last = int(real_tokens(batch, name, tuple(ids.shape)).view(-1, ids.shape[-1])[0].nonzero()[-1])
    changed = ids.clone(memory_format=torch.contiguous_format)
    row = changed.view(-1, ids.shape[-1])[0]
    others = row[row != row[last]]
    row[last] = others[0] if len(others) else (row[last] - 1).abs()
    before = run_plain_forward(model, batch)[which]
    after = run_plain_forward(model, replace_input(batch, name, changed))[which]
    moved = (after.double() - before.double()).abs().amax(-1)
    early, late = float(moved[..., :last].max()), float(moved[..., last:].max())
    if not math.isfinite(early + late):
        return None
    noise = max(_NOISE, torch.finfo(before.dtype).eps)
    return early > noise * max(early, late)
