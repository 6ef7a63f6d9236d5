"""Where a model runs and in which precision, from the names that people type."""

from __future__ import annotations

import torch
from torch import nn

from normdiag.errors import LoadError, UsageError

META_DEVICE = torch.device("meta")
"""Where tensors have a shape and no values."""

DTYPES = {
    "float64": torch.float64,
    "float32": torch.float32,
    "float16": torch.float16,
    "bfloat16": torch.bfloat16,
    "fp64": torch.float64,
    "fp32": torch.float32,
    "fp16": torch.float16,
    "bf16": torch.bfloat16,
    "double": torch.float64,
    "float": torch.float32,
    "half": torch.float16,
}


def parse_dtype(name: str | None) -> torch.dtype | None:
    """The dtype called `name`; None for None and "auto", which mean: as stored."""
    if name is None or name == "auto":
        return None
    try:
        return DTYPES[name.removeprefix("torch.").lower()]
    except KeyError:
        raise UsageError(
            f"dtype {name!r} is not known", f"one of auto, {', '.join(DTYPES)}"
        ) from None


def parse_device(name: str) -> torch.device:
    """The device called `name`. Raises UsageError where this machine has none such."""
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        raise UsageError(
            f"device {name!r} cannot be used: {str(error).splitlines()[0]}",
            f"this machine has: {', '.join(_available_devices())}",
        ) from error
    if device.type == "meta":
        raise UsageError("device 'meta' holds no values", "use --structure-only to look without")
    return device


def prepare_model(model: nn.Module, device: torch.device, dtype: torch.dtype | None = None) -> nn.Module:
    """The model in eval mode on `device`. Raises LoadError where it does not fit there."""
    try:
        return model.eval().to(device=device, dtype=dtype)
    except torch.OutOfMemoryError as error:
        size = sum(p.numel() * p.element_size() for p in model.parameters())
        raise LoadError(
            f"the model ({size / 1e9:.1f} GB of parameters) does not fit on {device}",
            "--dtype bfloat16 halves float32; --device cpu has the machine's own memory; "
            "--weights-only reads one tensor at a time",
        ) from error


def _available_devices() -> list[str]:
    if not torch.accelerator.is_available():
        return ["cpu"]
    return ["cpu", str(torch.accelerator.current_accelerator())]
