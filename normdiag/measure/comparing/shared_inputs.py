"""What one model was run on, as inputs for another, so that their values can be compared."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from normdiag.errors import NormdiagError
from normdiag.inputs.batch import Batch
from normdiag.inputs.input_requirements import InputRequirements, collect_requirements
from normdiag.inputs.model_inputs import build_inputs
from normdiag.inputs.padding import has_partial_mask
from normdiag.loading.interface import LoadedModel, LoadedTarget
from normdiag.options import InputOptions


class _UnsharedError(Exception):
    """The second model does not accept the inputs of the first; the message says why."""


def share_inputs(
    loaded: LoadedTarget, batches: tuple[Batch, ...]
) -> tuple[list[Any] | None, str | None]:
    """One entry for each batch, as `Options.inputs` takes them; or None, and why.

    Where forward has the same names, its arguments go over as they are. Otherwise token ids go by
    the names that this model has for them, and a single tensor goes to its only argument.
    """
    if not isinstance(loaded, LoadedModel) or not batches:
        return None, None
    try:
        return [_convert_batch(loaded, batch) for batch in batches], None
    except _UnsharedError as error:
        return None, f"each ran on its own inputs: {error}"


def _convert_batch(loaded: LoadedModel, batch: Batch) -> Any:
    requirements = collect_requirements(loaded)
    _require_known_ids(requirements, batch)
    dtype, taken = requirements.dtype, requirements.parameters
    missing = [name for name in requirements.required_inputs if name not in batch.inputs]
    if not batch.args and batch.inputs.keys() <= taken.keys() and not missing:
        return {name: _cast_floating(value, dtype) for name, value in batch.inputs.items()}
    tensors = [v for v in (*batch.args, *batch.inputs.values()) if isinstance(v, torch.Tensor)]
    if batch.ids is not None and not has_partial_mask(batch):
        if not any(isinstance(m, (nn.Embedding, nn.EmbeddingBag)) for m in loaded.model.modules()):
            raise _UnsharedError("the first takes token ids, the second embeds none")
        return _convert_ids(loaded, batch)
    if len(tensors) == 1 and len(missing) <= 1:
        return _cast_floating(tensors[0], dtype)
    raise _UnsharedError(
        f"forward of the first takes {', '.join(batch.inputs)}, that of the second "
        f"{', '.join(taken)}"
    )


def _convert_ids(loaded: LoadedModel, batch: Batch) -> Any:
    try:
        batches = build_inputs(loaded, InputOptions(ids=batch.ids)).batches
    except NormdiagError as error:
        raise _UnsharedError(error.what) from error
    if len(batches) != 1:
        raise _UnsharedError("its token ids do not fit into one forward of the second")
    return batches[0].args or batches[0].inputs


def _require_known_ids(requirements: InputRequirements, batch: Batch) -> None:
    rows = requirements.embedding_rows
    largest = max((max(row, default=0) for row in batch.ids or ()), default=0)
    if rows is not None and largest >= rows:
        raise _UnsharedError(
            f"the vocabularies differ: the first ran on token id {largest}, the embedding of "
            f"the second has {rows} rows"
        )


def _cast_floating(value: Any, dtype: torch.dtype) -> Any:
    is_floating = isinstance(value, torch.Tensor) and value.is_floating_point()
    return value.to(dtype) if is_floating else value
