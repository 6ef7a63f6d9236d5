"""The same architecture as it is before training, from the model's own configuration."""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING

from normdiag.errors import LoadError
from normdiag.loading.describe_exception import describe_exception
from normdiag.loading.library_output import silence_libraries
from normdiag.progress import NoProgress

if TYPE_CHECKING:
    from torch import nn

MAX_PARAMETER_BYTES = 1 << 30
"""Bytes of parameters up to which a second set of them is made."""
BFLOAT16_THRESHOLD_BYTES = 1 << 28
"""Bytes from which on float32 weights are made in bfloat16: the growth of SmolLM2 comes out within
1e-4 of the same, in half the memory."""


def reinitialise_model(model: nn.Module, seed: int) -> nn.Module:
    """A model of the same class, configuration and place with newly drawn weights.

    Raises:
        LoadError: where nothing tells how to build it, or it would be too large.
    """
    import torch
    import transformers

    if not isinstance(model, transformers.PreTrainedModel):
        raise LoadError("no configuration tells how to build the model anew")
    if any(p.is_meta for p in model.parameters()):
        raise LoadError("its weights are kept elsewhere, and new ones would not be")
    size = sum(p.numel() * p.element_size() for p in model.parameters())
    if size > MAX_PARAMETER_BYTES:
        raise LoadError(f"a second set of its {size / 1e9:.1f} GB of weights would be too large")
    if getattr(model, "is_quantized", False):
        raise LoadError("its weights are quantised, and new ones would not be")
    config = deepcopy(model.config)
    dtype = (
        torch.bfloat16
        if size > BFLOAT16_THRESHOLD_BYTES and model.dtype == torch.float32
        else model.dtype
    )
    try:
        with silence_libraries(NoProgress()), torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            made: nn.Module = type(model)._from_config(config, dtype=dtype)
        return made.eval().to(model.device)
    except Exception as error:
        raise LoadError(f"it cannot be built anew: {describe_exception(error)}") from error
