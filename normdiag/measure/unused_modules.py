"""Modules with parameters that did not run inside a module that did."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from torch import nn

from normdiag.capture.scopes import plain_path
from normdiag.evidence.coverage import UnusedModule, mask_numbers
from normdiag.measure.passes.forward_structure import ForwardStructure


def find_unused_modules(
    model: nn.Module, forward: ForwardStructure, not_called: Collection[str]
) -> Iterator[UnusedModule]:
    """Yield the outermost of the modules that did not run, and the layer in which each lies."""
    modules = {plain_path(path): module for path, module in model.named_modules()}
    names = set(map(plain_path, not_called))
    layers = _layers_by_path(forward)
    for name in dict.fromkeys(map(plain_path, not_called)):
        if not names.isdisjoint(_enclosing_paths(name)):
            continue
        around = next((layers[path] for path in _enclosing_paths(name) if path in layers), None)
        stack, layer = around or (_stack_of_list(name, layers), None)
        yield UnusedModule(
            module=name,
            parameters=sum(p.numel() for p in modules[name].parameters()),
            stack=stack,
            layer=layer,
            is_choice=around is not None and _is_choice(name, modules, names),
            is_norm=all(p.ndim < 2 for p in modules[name].parameters()),
            runs_elsewhere=any(
                mask_numbers(path) == mask_numbers(name) for path in modules.keys() - names
            ),
        )


def _enclosing_paths(path: str) -> list[str]:
    """The paths of the modules around one, innermost first."""
    parts = path.split(".")
    return [".".join(parts[:end]) for end in range(len(parts) - 1, 0, -1)]


def _layers_by_path(forward: ForwardStructure) -> dict[str, tuple[str, int]]:
    """The stack and the layer of every module that is one run of a repeated layer."""
    return {
        frame.path: (id, layer)
        for id, stack in forward.sites.stacks.items()
        for layer, frame in enumerate(stack.layers.frames)
        if frame is not None
    }


def _stack_of_list(name: str, layers: dict[str, tuple[str, int]]) -> str | None:
    """The stack of which other layers are items of the same list."""
    parent = name.rpartition(".")[0]
    siblings = (stack for path, (stack, _) in layers.items() if path.rpartition(".")[0] == parent)
    return next(siblings, None) if name[len(parent) + 1 :].isdigit() else None


def _is_choice(name: str, modules: dict[str, nn.Module], unused: set[str]) -> bool:
    """Whether it is an item of a list of which other items ran, in this or in another layer."""
    parent, _, _ = name.rpartition(".")
    if not isinstance(modules.get(parent), nn.ModuleList | nn.ModuleDict):
        return False
    lists = {path for path in modules if mask_numbers(path) == mask_numbers(parent)}
    return any(
        path.rpartition(".")[0] in lists and path not in unused
        for path in modules
        if path.count(".") == name.count(".")
    )
