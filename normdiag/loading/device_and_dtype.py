"""The device and dtype of a model."""

from __future__ import annotations

import torch
from torch import nn

from normdiag.errors import LoadError, UsageError

META_DEVICE = torch.device("meta")
"""The device of tensors that have a shape and no values."""


def resolve_dtype(name: str | None) -> torch.dtype | None:
    """The torch dtype of `LoadingOptions.dtype`; None means: as stored."""
    dtype: torch.dtype | None = None if name is None else getattr(torch, name)
    return dtype


def resolve_device(name: str) -> torch.device:
    """The device called `name`. Raises UsageError where this machine does not have it."""
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        raise UsageError(
            f"device {name!r} cannot be used: {str(error).splitlines()[0]}",
            f"this machine has: {', '.join(_available_devices())}",
        ) from error
    if device.type == "meta":
        raise UsageError(
            "device 'meta' holds no values, so the model cannot be run there",
            "use --structure-only to read the architecture alone",
        )
    return device


def prepare_model(
    model: nn.Module, device: torch.device | None, dtype: torch.dtype | None = None
) -> nn.Module:
    """Put the model in eval mode on `device`; None leaves it where it is.

    Raises LoadError where memory does not suffice.
    """
    try:
        _set_eval_mode(model)
        if device is None:
            return model
        return model.to(device=device, dtype=dtype)
    except torch.OutOfMemoryError as error:
        size = sum(p.numel() * p.element_size() for p in model.parameters())
        raise LoadError(
            f"the model ({size / 1e9:.1f} GB of parameters) does not fit on {device}",
            "use --dtype bfloat16 to halve float32 weights, --device cpu for the main memory, or "
            "--weights-only to read one tensor at a time",
        ) from error


def _set_eval_mode(model: nn.Module) -> None:
    """Of every part whose mode can be set; that of `torch.export` was fixed by the export."""
    try:
        model.eval()
    except NotImplementedError:  # by the module or by a part, ahead of the parts behind it
        model.training = False
        for part in model.children():
            _set_eval_mode(part)


def _available_devices() -> list[str]:
    if not torch.accelerator.is_available():
        return ["cpu"]
    return ["cpu", str(torch.accelerator.current_accelerator())]
