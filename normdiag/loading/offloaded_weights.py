"""Weights that accelerate keeps on disk or in main memory and loads for each module as it runs."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, Protocol

from normdiag.errors import LoadError
from normdiag.loading.describe_exception import describe_exception

if TYPE_CHECKING:
    import torch
    from torch import nn


def has_offloaded_weights(model: nn.Module) -> bool:
    """Whether some parameters have values only while their module runs."""
    return next(_iterate_hooks(model), None) is not None


def list_offloaded(model: nn.Module) -> frozenset[str]:
    """The names of the parameters and buffers that are offloaded."""
    return frozenset(
        f"{path}.{name}".lstrip(".")
        for path, module, hook in _iterate_hooks(model)
        for name, tensor in _iterate_tensors(module, hook)
        if tensor.is_meta
    )


def list_parameters(model: nn.Module) -> list[nn.Parameter]:
    """The parameters, each once: offloaded ones that are tied are two objects with one value."""
    tied = getattr(model, "all_tied_weights_keys", None) or {}
    offloaded = list_offloaded(model)
    return [
        parameter
        for name, parameter in model.named_parameters()
        if not (name in offloaded and tied.get(name) in offloaded)
    ]


def list_run_devices(model: nn.Module) -> tuple[str, ...]:
    """The devices on which parameters are when they are used, in the order of the model."""
    resident = [str(p.device) for p in model.parameters() if not p.is_meta]
    loaded = [str(hook.execution_device) for _, _, hook in _iterate_hooks(model)]
    return tuple(dict.fromkeys((*resident, *loaded)))


class WeightReader:
    """Reads the values of a model's tensors where they lie: in memory, or where they are stored."""

    def __init__(self, model: nn.Module) -> None:
        self._maps = {path: hook.weights_map for path, _, hook in _iterate_hooks(model)}

    def read_values(self, name: str, tensor: torch.Tensor) -> torch.Tensor:
        """`tensor`, whose name in the model is `name`; of an offloaded one its stored values.

        Raises:
            LoadError: an offloaded tensor cannot be read.
        """
        if not tensor.is_meta:
            return tensor
        # in the map of the module that holds it, or of one around it that is loaded whole
        path, _, last = name.rpartition(".")
        while path and path not in self._maps:
            path, _, part = path.rpartition(".")
            last = f"{part}.{last}"
        if path not in self._maps:
            return tensor
        try:
            value: torch.Tensor = self._maps[path][last]
        except Exception as error:
            raise LoadError(
                f"the offloaded tensor {name} cannot be read: {describe_exception(error)}",
                "its file was moved or is damaged; load the model again",
            ) from error
        return value


def complete_tied_entries(model: nn.Module) -> None:
    """Give tied parameters, of which one alone was written to disk, the place of that one.

    transformers writes it once, and accelerate asks for it by the name of each.
    """
    tied = getattr(model, "all_tied_weights_keys", None) or {}
    indices = {
        id(index): index
        for _, _, hook in _iterate_hooks(model)
        if (index := getattr(getattr(hook.weights_map, "dataset", None), "index", None)) is not None
    }
    for index in indices.values():
        for name, source in tied.items():
            if name not in index and source in index:
                index[name] = {"weight_name": source, **index[source]}


class ForwardFollower(Protocol):
    """What must know of weights that come and go while a model runs."""

    def pause_recording(self) -> AbstractContextManager[None]:
        """A context whose operations are no part of the model's computation."""
        ...

    def rebind_weight(self, name: str, tensor: torch.Tensor) -> None:
        """`tensor` holds the values of the parameter or buffer `name` from now on."""
        ...

    def rebind_copy(self, original: torch.Tensor, copy: torch.Tensor) -> None:
        """`copy` holds the value of `original`, on another device."""
        ...


@contextmanager
def follow_offloaded_weights(model: nn.Module, follower: ForwardFollower) -> Iterator[None]:
    """Tell `follower` of every weight that is loaded, and of every value that is moved for it."""
    with ExitStack() as undo:
        for path, _, hook in _iterate_hooks(model):
            for name in ("pre_forward", "post_forward"):
                undo.callback(vars(hook).pop, name)
                setattr(hook, name, _follow_hook(getattr(hook, name), path, hook, follower))
        yield


def _follow_hook(
    call: Callable[..., Any], path: str, hook: Any, follower: ForwardFollower
) -> Callable[..., Any]:
    from torch.utils import _pytree as pytree

    def run_hook(module: nn.Module, *args: Any, **kwargs: Any) -> Any:
        with follower.pause_recording():
            moved = call(module, *args, **kwargs)
        before, behind = pytree.tree_leaves((args, kwargs)), pytree.tree_leaves(moved)
        for original, copy in zip(before, behind, strict=True):
            if original is not copy:
                follower.rebind_copy(original, copy)
        for name, tensor in _iterate_tensors(module, hook):
            if not tensor.is_meta:
                follower.rebind_weight(f"{path}.{name}".lstrip("."), tensor)
        return moved

    return run_hook


def _iterate_hooks(model: nn.Module) -> Iterator[tuple[str, nn.Module, Any]]:
    """Path, module and hook of every module whose weights are loaded as it runs."""
    library = sys.modules.get("accelerate.hooks")
    if library is None:  # whoever offloads has imported it
        return
    for path, module in model.named_modules():
        hook = getattr(module, "_hf_hook", None)
        parts = hook.hooks if isinstance(hook, library.SequentialHook) else (hook,)
        for part in parts:
            if isinstance(part, library.AlignDevicesHook) and part.offload:
                yield path, module, part


def _iterate_tensors(module: nn.Module, hook: Any) -> Iterator[tuple[str, torch.Tensor]]:
    yield from module.named_parameters(recurse=hook.place_submodules)
    if hook.offload_buffers:
        yield from module.named_buffers(recurse=hook.place_submodules)
