"""Modules with parameters that did not run inside a module that did."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

from torch import nn

from normdiag.capture.scopes import plain_path
from normdiag.evidence.coverage import UnusedModule, mask_numbers
from normdiag.graph import Graph
from normdiag.measure.passes.forward_structure import ForwardStructure

_LISTS = nn.ModuleList | nn.ModuleDict


@dataclass(frozen=True)
class UsedModules:
    """Which modules with parameters took part in a forward, and which did not."""

    ran: dict[str, nn.Module]
    """By path, without the wrappers of `torch.compile`."""
    not_called: dict[str, nn.Module]
    """Outermost first: a whole tower that did not run, and after it the modules inside it."""
    parameters: frozenset[int]
    """The `id` of each parameter that was an operand, under any of its names."""


def divide_modules(model: nn.Module, graph: Graph) -> UsedModules:
    """Tell modules that ran, or of which a parameter was used, from those that did not.

    A module of which every parameter is tied to one that was used elsewhere is in neither: nothing
    of it is idle.
    """
    operands = {
        p.name
        for node in graph
        for p in node.parents
        if p.op in ("parameter", "buffer") and p.name is not None
    }
    used_paths = {""}
    for path in {*graph.calls, *(plain_path(name.rpartition(".")[0]) for name in operands)}:
        used_paths |= {path, *_enclosing_paths(path)}
    parameters = frozenset(id(p) for name, p in model.named_parameters() if name in operands)
    used = UsedModules({}, {}, parameters)
    for path, module in model.named_modules():
        if plain_path(path) in used_paths:
            if next(module.parameters(), None) is not None:
                used.ran[plain_path(path)] = module
        elif any(id(p) not in parameters for p in module.parameters()):
            used.not_called[plain_path(path)] = module
    return used


def find_unused_modules(used: UsedModules, forward: ForwardStructure) -> Iterator[UnusedModule]:
    """Yield the outermost of the modules that did not run, and the layer in which each lies."""
    layers = _layers_by_path(forward)
    stacks_of_lists = {path.rpartition(".")[0]: stack for path, (stack, _) in layers.items()}
    norms = {_norm_kind(used.ran[n.node.frame.path]) for n in forward.sites.norms
             if n.node.frame.path in used.ran}  # fmt: skip
    ran = _kinds_by_pattern(used.ran, {mask_numbers(name) for name in used.not_called})
    parents = {path.rpartition(".")[0] for path in used.ran}
    for name, module in used.not_called.items():
        if not used.not_called.keys().isdisjoint(_enclosing_paths(name)):
            continue
        around = next((layers[path] for path in _enclosing_paths(name) if path in layers), None)
        parent, _, last = name.rpartition(".")
        stack, layer = around or (stacks_of_lists.get(parent) if last.isdigit() else None, None)
        is_chosen = parent in parents and isinstance(used.ran.get(parent), _LISTS)
        yield UnusedModule(
            module=name,
            parameters=sum(p.numel() for p in module.parameters() if id(p) not in used.parameters),
            stack=stack,
            layer=layer,
            is_choice=around is not None and is_chosen,
            is_norm=_holds_vectors(module) and _norm_kind(module) in norms,
            runs_elsewhere=_shapes_of(module) in ran[mask_numbers(name)],
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


def _kinds_by_pattern(
    modules: dict[str, nn.Module], patterns: Collection[str]
) -> dict[str, set[Any]]:
    """The names and shapes of the parameters of the modules that `patterns` name."""
    kinds: dict[str, set[Any]] = defaultdict(set)
    for path, module in modules.items():
        pattern = mask_numbers(path)
        if pattern in patterns:
            kinds[pattern].add(_shapes_of(module))
    return kinds


def _shapes_of(module: nn.Module) -> tuple[tuple[str, tuple[int, ...]], ...]:
    """Names and shapes of all parameters: what tells the kinds of layers of one list apart."""
    return tuple((plain_path(name), tuple(p.shape)) for name, p in module.named_parameters())


def _norm_kind(module: nn.Module) -> tuple[type[nn.Module], tuple[str, ...]]:
    """What two norms share that run the same code, whatever their widths."""
    return type(module), tuple(name for name, _ in module.named_parameters())


def _holds_vectors(module: nn.Module) -> bool:
    return all(p.ndim < 2 for p in module.parameters())
