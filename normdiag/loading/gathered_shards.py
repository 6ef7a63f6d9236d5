"""A sharded module on one process, turned into the module that was sharded.

`fully_shard` and `parallelize_module` replace parameters by DTensors, and wrap what runs around
each forward: hooks, the module's class, or its `forward`. On a mesh of one process the local shard
is the whole parameter, so without these wrappers the module computes the same.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Any

from normdiag.errors import LoadError

if TYPE_CHECKING:
    from torch import nn

_HOOKS = (
    "_forward_pre_hooks", "_forward_hooks", "_backward_pre_hooks", "_backward_hooks",
    "_state_dict_pre_hooks", "_state_dict_hooks", "_load_state_dict_pre_hooks",
)  # fmt: skip
_LIBRARY = "torch.distributed"


def gather_shards(model: nn.Module) -> tuple[tuple[str, ...], Callable[[], None]]:
    """Put the whole parameters in place of sharded ones and take the wrappers of the shards off.

    Returns a note where there were any, and what puts everything back. Nothing is copied.

    Raises:
        LoadError: a parameter is spread over more than one process. The model is as it was then.
    """
    _refuse_spread(model)
    for module in _sharded_by_class(model):
        module.reshard()  # after a forward some parameters may lie gathered in their place
    _refuse_spread(model)
    shards = list(_iterate_shards(model))
    if not shards:
        return (), lambda: None
    with ExitStack() as undo:
        count = _replace_shards(shards, undo)
        for module in _sharded_by_class(model):
            undo.callback(setattr, module, "__class__", type(module))
            module.__class__ = _class_before(module)
        for module in model.modules():
            _remove_wrappers(module, undo)
        note = (
            f"{count} sharded parameters (DTensor, on one process) were gathered; the module was "
            "run as before fully_shard or parallelize_module"
        )
        return (note,), undo.pop_all().close


def _iterate_shards(model: nn.Module) -> Iterator[tuple[nn.Module, str, str, str, Any]]:
    """Module, table, name, path and value of every DTensor, shared ones each time."""
    library = sys.modules.get("torch.distributed.tensor")
    kind = getattr(library, "DTensor", None)
    if kind is None:
        return
    for prefix, module in model.named_modules():
        for table in ("_parameters", "_buffers"):
            for name, value in getattr(module, table).items():
                if isinstance(value, kind):
                    yield module, table, name, f"{prefix}.{name}".lstrip("."), value


def _refuse_spread(model: nn.Module) -> None:
    for _, _, _, path, shard in _iterate_shards(model):
        count = shard.device_mesh.size()
        if count > 1:
            raise LoadError(
                f"{path} is sharded over {count} processes (DTensor {tuple(shard.shape)} with "
                f"placements {list(shard.placements)}), and a model is run by one process",
                "pass the module before it is sharded, or load into an unsharded one what "
                "torch.distributed.checkpoint.state_dict.get_model_state_dict returns with "
                "StateDictOptions(full_state_dict=True)",
            )


def _replace_shards(shards: list[tuple[nn.Module, str, str, str, Any]], undo: ExitStack) -> int:
    """Put whole parameters in their place; how many there are. A tied one stays tied."""
    whole: dict[int, Any] = {}
    for module, table, name, _, shard in shards:
        values = whole.setdefault(id(shard), _gather_values(shard))
        undo.callback(getattr(module, table).__setitem__, name, shard)
        getattr(module, table)[name] = values
    return len(whole)


def _gather_values(shard: Any) -> Any:
    from torch import nn

    local = shard.detach().to_local()
    if isinstance(shard, nn.Parameter):
        return nn.Parameter(local, requires_grad=shard.requires_grad)
    return local


def _sharded_by_class(model: nn.Module) -> list[Any]:
    """The modules whose class `fully_shard` replaced."""
    kind = _sharded_class()
    return [m for m in model.modules() if kind is not None and isinstance(m, kind)]


def _sharded_class() -> type | None:
    return getattr(sys.modules.get("torch.distributed.fsdp"), "FSDPModule", None)


def _class_before(module: nn.Module) -> type:
    """The class that `fully_shard` derived that of `module` from."""
    sharded = _sharded_class()
    return next(each for each in type(module).__mro__ if not issubclass(each, sharded or ()))


def _remove_wrappers(module: nn.Module, undo: ExitStack) -> None:
    """Take off the hooks of `module`, and a replaced `forward`, that torch.distributed defines."""
    for name in _HOOKS:
        hooks = getattr(module, name, None) or {}
        kept = {key: hook for key, hook in hooks.items() if not _is_distributed(hook)}
        if len(kept) < len(hooks):
            undo.callback(_replace_entries, hooks, dict(hooks))
            _replace_entries(hooks, kept)
    forward = vars(module).get("forward")
    if forward is not None and _is_distributed(forward):
        undo.callback(vars(module).__setitem__, "forward", forward)
        del vars(module)["forward"]


def _replace_entries(table: dict[Any, Any], entries: dict[Any, Any]) -> None:
    """All entries, in their order."""
    table.clear()
    table.update(entries)


def _is_distributed(function: Any) -> bool:
    """Whether torch.distributed itself defines it: a user's own hook is part of the model."""
    while isinstance(function, partial) or hasattr(function, "hook"):
        function = function.func if isinstance(function, partial) else function.hook
    home = str(getattr(function, "__module__", ""))
    return home == _LIBRARY or home.startswith(f"{_LIBRARY}.")
