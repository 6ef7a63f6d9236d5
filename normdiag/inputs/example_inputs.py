"""Inputs for a plain `nn.Module`: its author's, or noise of the shape its first weight takes."""

from __future__ import annotations

from typing import Any

import torch

from normdiag.errors import RunError
from normdiag.inputs.requirements import (
    dtype_and_device,
    first_weight,
    forward_parameters,
    needed_inputs,
)
from normdiag.inputs.synthetic_inputs import cannot_guess
from normdiag.loading.interface import LoadedModel

_SHAPE = (2, 16)
"""Sequences and tokens."""


def authors_inputs(runnable: LoadedModel) -> Any | None:
    """What the factory returned beside the module, or the module's `example_inputs`."""
    if runnable.author_inputs is not None:
        return runnable.author_inputs
    own: Any = getattr(runnable.model, "example_inputs", None)
    return own() if callable(own) else own


def guessed_input(runnable: LoadedModel, seed: int) -> tuple[torch.Tensor, str]:
    """A seeded tensor for the only argument of forward, and the weight it was guessed from.

    Token ids (2, 16) where the first weight is an embedding, else noise (2, 16, features).
    Raises RunError where forward takes more than one input or the first weight tells nothing.
    """
    name = _only_argument(runnable)
    first = first_weight(runnable.model)
    if first is None or (first.weight.ndim > 2 and not first.is_table):
        raise cannot_guess(runnable, name)
    dtype, device = dtype_and_device(runnable.model)
    generator = torch.Generator().manual_seed(seed)
    if first.is_table:
        rows = first.module.num_embeddings
        ids = torch.randint(rows, _SHAPE, generator=generator)
        return ids.to(device), f"seeded token ids below {rows}, the rows of {first.path}"
    shape = (*_SHAPE, first.weight.shape[-1])
    noise = torch.randn(shape, generator=generator).to(device=device, dtype=dtype)
    return noise, f"seeded noise of shape {shape}, as the first weight, of {first.path}, takes it"


def _only_argument(runnable: LoadedModel) -> str:
    needed = needed_inputs(runnable.model)
    if len(needed) > 1:
        raise RunError(
            f"forward of {runnable.class_name} needs {', '.join(needed)}",
            f"give them: --inputs FILE (a .safetensors or JSON file with the keys "
            f"{', '.join(needed)}), in Python inputs={{{needed[0]!r}: tensor, ...}}; a factory may "
            "return (module, inputs)",
        )
    return needed[0] if needed else next(iter(forward_parameters(runnable.model)), "x")
