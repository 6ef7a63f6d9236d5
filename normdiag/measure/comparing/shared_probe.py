"""What one model was run on, as inputs for another, so that their values can be compared."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from normdiag.errors import NormdiagError
from normdiag.inputs import model_inputs
from normdiag.inputs.batch import Batch
from normdiag.inputs.requirements import (
    dtype_and_device,
    embedding_rows,
    forward_parameters,
    needed_inputs,
)
from normdiag.loading.interface import Loaded, Runnable


class _UnsharedError(Exception):
    """The second model cannot be given what the first one was; the message says why."""


def shared(loaded: Loaded, batches: tuple[Batch, ...]) -> tuple[list[Any] | None, str | None]:
    """One entry for each batch, as `Options.inputs` takes them; or None, and why.

    Where forward has the same names, its arguments go over as they are. Otherwise token ids go by
    the names that this model has for them, and a single tensor goes to its only argument.
    """
    if not isinstance(loaded, Runnable) or not batches:
        return None, None
    try:
        return [_inputs(loaded, batch) for batch in batches], None
    except _UnsharedError as error:
        return None, f"each was run on a probe of its own: {error}"


def _inputs(loaded: Runnable, batch: Batch) -> Any:
    _require_known_ids(loaded, batch)
    dtype, _ = dtype_and_device(loaded.model)
    taken = forward_parameters(loaded.model)
    missing = [name for name in needed_inputs(loaded.model) if name not in batch.inputs]
    if not batch.args and batch.inputs.keys() <= taken.keys() and not missing:
        return {name: _cast(value, dtype) for name, value in batch.inputs.items()}
    tensors = [v for v in (*batch.args, *batch.inputs.values()) if isinstance(v, torch.Tensor)]
    if batch.ids is not None and not _is_masked(batch):
        if not any(isinstance(m, (nn.Embedding, nn.EmbeddingBag)) for m in loaded.model.modules()):
            raise _UnsharedError("the first takes token ids, the second embeds none")
        return _by_ids(loaded, batch)
    if len(tensors) == 1 and len(missing) <= 1:
        return _cast(tensors[0], dtype)
    raise _UnsharedError(
        f"forward of the first takes {', '.join(batch.inputs)}, that of the second "
        f"{', '.join(taken)}"
    )


def _by_ids(loaded: Runnable, batch: Batch) -> Any:
    try:
        made, _, _ = model_inputs.build(loaded, model_inputs.ProbeOptions(ids=batch.ids))
    except NormdiagError as error:
        raise _UnsharedError(error.what) from error
    if len(made) != 1:
        raise _UnsharedError("its token ids do not fit into one forward of the second")
    return made[0].args or made[0].inputs


def _require_known_ids(loaded: Runnable, batch: Batch) -> None:
    rows = embedding_rows(loaded.model)
    largest = max((max(row, default=0) for row in batch.ids or ()), default=0)
    if rows is not None and largest >= rows:
        raise _UnsharedError(
            f"the vocabularies differ: the first was given token id {largest}, the embedding of "
            f"the second has {rows} rows"
        )


def _is_masked(batch: Batch) -> bool:
    """Whether some of its tokens are padding: token ids alone would not tell."""
    mask = batch.inputs.get("attention_mask")
    return isinstance(mask, torch.Tensor) and not bool((mask != 0).all())


def _cast(value: Any, dtype: torch.dtype) -> Any:
    is_floating = isinstance(value, torch.Tensor) and value.is_floating_point()
    return value.to(dtype) if is_floating else value
