"""Inputs for a plain `nn.Module`: its author's, or noise of the shape of its first weight."""

from __future__ import annotations

from typing import Any

import torch

from normdiag.errors import RunError
from normdiag.inputs.input_requirements import InputRequirements
from normdiag.inputs.synthetic_inputs import unknown_shape_error
from normdiag.loading.interface import LoadedModel

_SHAPE = (2, 16)
"""Sequences and tokens."""


def find_author_inputs(loaded: LoadedModel) -> Any | None:
    """What the factory returned with the module, or the module's `example_inputs`."""
    if loaded.author_inputs is not None:
        return loaded.author_inputs
    example: Any = getattr(loaded.model, "example_inputs", None)
    return example() if callable(example) else example


def guess_input(requirements: InputRequirements, seed: int) -> tuple[torch.Tensor, str]:
    """A seeded tensor for the only argument of forward, and a note on where its shape is from.

    Token ids (2, 16) where the first weight is an embedding, else noise (2, 16, features).
    Raises RunError where forward needs several inputs or the first weight has no feature axis.
    """
    name = _find_only_argument(requirements)
    first = requirements.first_weight
    if first is None or (first.weight.ndim > 2 and not first.is_embedding):
        raise unknown_shape_error(requirements, name)
    generator = torch.Generator().manual_seed(seed)
    if first.is_embedding:
        rows = first.module.num_embeddings
        ids = torch.randint(rows, _SHAPE, generator=generator)
        return ids.to(
            requirements.device
        ), f"seeded token ids below {rows}, the rows of {first.path}"
    shape = (*_SHAPE, first.weight.shape[-1])
    noise = torch.randn(shape, generator=generator)
    note = f"seeded noise of shape {shape}, the input width of the first weight ({first.path})"
    return noise.to(device=requirements.device, dtype=requirements.dtype), note


def _find_only_argument(requirements: InputRequirements) -> str:
    needed = requirements.required_inputs
    if len(needed) > 1:
        raise RunError(
            f"forward of {requirements.class_name} needs several inputs: {', '.join(needed)}",
            f"pass them with --inputs FILE (a .safetensors or JSON file with the keys "
            f"{', '.join(needed)}), in Python inputs={{{needed[0]!r}: tensor, ...}}; a factory may "
            "return (module, inputs)",
        )
    return needed[0] if needed else next(iter(requirements.parameters), "x")
