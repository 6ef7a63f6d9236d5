"""A model's architecture with newly initialised weights, from its own configuration."""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING

from normdiag.errors import LoadError
from normdiag.loading.describe_exception import describe_exception
from normdiag.loading.silence_libraries import silence_libraries
from normdiag.progress import NoProgress

if TYPE_CHECKING:
    from torch import nn

MAX_PARAMETER_BYTES = 1 << 30
"""Parameter bytes of the largest model of which a second copy is built."""
BFLOAT16_THRESHOLD_BYTES = 1 << 28
"""Parameter bytes from which on float32 weights are drawn in bfloat16, in half the memory. The
growth of SmolLM2 stays the same to 1e-4."""


def reinitialise_model(model: nn.Module, seed: int) -> nn.Module:
    """Build a model of the same class, configuration and device with newly drawn weights.

    Raises LoadError where there is no configuration, or the copy would be too large.
    """
    import torch
    import transformers

    if not isinstance(model, transformers.PreTrainedModel):
        raise LoadError("the model has no transformers configuration to build it from")
    if any(p.is_meta for p in model.parameters()):
        raise LoadError("some parameters are on the meta device")
    size = sum(p.numel() * p.element_size() for p in model.parameters())
    if size > MAX_PARAMETER_BYTES:
        raise LoadError(f"a second copy of its {size / 1e9:.1f} GB of weights would be too large")
    if getattr(model, "is_quantized", False):
        raise LoadError("its weights are quantised, and newly drawn ones would not be")
    config = deepcopy(model.config)
    dtype = (
        torch.bfloat16
        if size > BFLOAT16_THRESHOLD_BYTES and model.dtype == torch.float32
        else model.dtype
    )
    try:
        with silence_libraries(NoProgress()), torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            reinitialised: nn.Module = type(model)._from_config(config, dtype=dtype)
        return reinitialised.eval().to(model.device)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        raise LoadError(
            f"the model cannot be built from its configuration: {describe_exception(error)}"
        ) from error
