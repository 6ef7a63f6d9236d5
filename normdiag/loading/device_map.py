"""Where a model's weights lie while it runs: on several devices, in main memory, on disk.

accelerate places them and loads what is offloaded, module by module; here its arguments are made.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from normdiag.errors import LoadError, UsageError
from normdiag.options import LoadingOptions

if TYPE_CHECKING:
    import torch
    from torch import nn

_SINGLE_DEVICE = ("cpu", "disk")
"""Maps under which the model runs on `LoadingOptions.device`."""


@dataclass(frozen=True)
class Placement:
    """How `from_pretrained` places the weights, and what ends with the model."""

    arguments: dict[str, Any]
    release: Callable[[], None]


def refuse_unplaceable(options: LoadingOptions, kind: str, target: str) -> None:
    """Raise UsageError for a device map that does not apply to this kind of target."""
    if options.device_map is None:
        for name in ("max_memory", "offload_folder"):
            if getattr(options, name) is not None:
                raise UsageError(
                    f"{name} says how a device map places the weights, and there is none",
                    "add --device-map auto (in Python device_map='auto')",
                )
        return
    if kind not in ("hub", "directory"):
        raise UsageError(
            f"device_map does not apply to {target}: only a checkpoint directory or a hub id is "
            "placed while it is loaded",
            "pass the directory; a module of your own can be dispatched with accelerate first",
        )
    if options.device_map not in _SINGLE_DEVICE and options.device != "cpu":
        raise UsageError(
            f"device {options.device!r} and device_map {options.device_map!r} contradict each "
            "other: the map chooses the devices",
            "leave one of them out; max_memory limits what each device takes",
        )


def plan_placement(
    options: LoadingOptions, device: torch.device, build_empty: Callable[[], nn.Module]
) -> Placement:
    """The arguments of `from_pretrained`. `build_empty` builds the model without values.

    Raises LoadError where accelerate is missing.
    """
    if options.device_map is None or options.device_map == "cpu":
        return Placement({}, lambda: None)
    _require_accelerate()
    with ExitStack() as undo:
        folder = options.offload_folder
        if folder is None:
            folder = undo.enter_context(tempfile.TemporaryDirectory(prefix="normdiag-offload-"))
        arguments = {
            "device_map": _place_on_disk(build_empty(), device)
            if options.device_map == "disk"
            else options.device_map,
            "max_memory": None if options.max_memory is None else dict(options.max_memory),
            "offload_folder": str(folder),
        }
        return Placement(arguments, undo.pop_all().close)


def offload_to_main_memory(model: nn.Module, device: torch.device) -> nn.Module:
    """Keep the weights in main memory and load those of each module onto `device` as it runs."""
    if device.type == "cpu":
        return model
    _require_accelerate()
    from accelerate import cpu_offload

    cpu_offload(model, execution_device=device)
    return model


def describe_placement(model: nn.Module) -> str | None:
    """How many parameters lie elsewhere; None where all are in memory."""
    from normdiag.loading.offloaded_weights import list_offloaded

    offloaded = list_offloaded(model)
    if not offloaded:
        return None
    sizes = {n: p.numel() * p.element_size() for n, p in model.named_parameters()}
    away = sum(size for name, size in sizes.items() if name in offloaded)
    return (
        f"{sum(name in offloaded for name in sizes)} of {len(sizes)} parameters "
        f"({away / sum(sizes.values()):.0%} of their bytes) are offloaded, and were loaded for "
        "each module as it ran"
    )


def _place_on_disk(model: nn.Module, device: torch.device) -> dict[str, str]:
    """Every module on disk but the smallest: accelerate wants one that says where to run."""
    leaves = {
        path: sum(p.numel() for p in module.parameters())
        for path, module in model.named_modules()
        if next(module.parameters(), None) is not None and next(module.children(), None) is None
    }
    smallest = min(leaves, key=lambda path: leaves[path])
    placed = {smallest: str(device)}
    around, prefix = model, ""
    for part in smallest.split("."):
        placed |= {f"{prefix}{n}": "disk" for n, _ in around.named_parameters(recurse=False)}
        placed |= {f"{prefix}{n}": "disk" for n, _ in around.named_children() if n != part}
        around, prefix = around.get_submodule(part), f"{prefix}{part}."
    return placed


def _require_accelerate() -> None:
    from importlib.util import find_spec

    if find_spec("accelerate") is None:
        raise LoadError(
            "a device map needs the package accelerate", "pip install 'normdiag[scale]'"
        )
