"""Copies of tokens that have a past: each a sequence of one token behind what came before it.

A causal model that keeps the keys and values of earlier tokens computes a token from them alone. A
batch of copies of it then costs one row each, where a whole sequence costs as many as it has
tokens. Whether the model does so is not assumed: who uses the copies compares them with the
sequence itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from normdiag.errors import RunError
from normdiag.inputs.batch import Batch
from normdiag.inputs.input_requirements import forward_parameters
from normdiag.measure.passes.model_call import call_model

_NEEDED = {"use_cache", "attention_mask", "position_ids"}
"""Arguments of a forward that takes and gives a past, besides the past."""
_PAST = ("cache", "past_key_values")
"""Its names, as an argument and in the output; the later one is the older one."""


def copy_with_past(
    model: nn.Module, batch: Batch, positions: Sequence[int], copies: int
) -> Batch | None:
    """`copies` sequences of each of the tokens at `positions` of `batch`, one after the other.

    All have the past of the last position; a mask hides from each what its token does not see. None
    where the model keeps no past, or `batch` is more than the ids of one sequence without padding.
    """
    ids, mask = batch.inputs.get("input_ids"), batch.inputs.get("attention_mask")
    is_plain = batch.inputs.keys() <= {"input_ids", "attention_mask"} and not batch.args
    if not is_plain or not isinstance(ids, Tensor) or ids.dim() != 2 or len(ids) != 1:
        return None
    taken = forward_parameters(model).keys()
    name = next((name for name in _PAST if name in taken), None)
    if ids.shape[1] < 2 or name is None or not taken >= _NEEDED:
        return None
    if isinstance(mask, Tensor) and not bool((mask != 0).all()):
        return None
    prefix = replace(batch, inputs={"input_ids": ids[:, :-1], "use_cache": True})
    past = _run_prefix(model, prefix, name)
    if past is None:
        return None
    places = torch.tensor(positions, device=ids.device).repeat_interleave(copies)[:, None]
    columns = torch.arange(ids.shape[1], device=ids.device)
    seen = (columns < places) | (columns == ids.shape[1] - 1)
    past.batch_repeat_interleave(len(places))
    inputs = {
        "input_ids": ids[0, places],
        "attention_mask": seen.long(),
        "position_ids": places,
        name: past,
        "use_cache": True,
    }
    return replace(batch, inputs=inputs)


def _run_prefix(model: nn.Module, prefix: Batch, name: str) -> Any:
    """What the model keeps of `prefix`, where copies of it can be made."""
    try:
        with torch.no_grad():
            past = getattr(call_model(model, prefix), name, None)
    except RunError:
        return None
    return past if hasattr(past, "batch_repeat_interleave") else None
