"""Layers of one stack that are modules of their parameters and hold the same parameters."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Mapping

import torch
from torch import nn

from normdiag.capture.scopes import plain_path
from normdiag.loading.plain_values import is_ordinary, plain_values
from normdiag.structure.stack_structure import StackStructure

_SAMPLE = 64

Parameters = dict[str, torch.Tensor]


def find_duplicate_layers(
    model: nn.Module, stacks: Mapping[str, StackStructure]
) -> dict[str, tuple[tuple[int, ...], ...]]:
    """Stack id -> groups of equal layers, for stacks of several modules with weights.

    Shared parameters are no duplicates: a module that runs twice, or whose weights are tied.
    """
    modules = {plain_path(name): module for name, module in model.named_modules()}
    groups_by_stack = {}
    for name, stack in stacks.items():
        layers: dict[int, Parameters] = {}
        for number, frame in enumerate(stack.layers.frames):
            module = modules.get(plain_path(frame.path)) if frame is not None else None
            parameters = {} if module is None else dict(module.named_parameters())
            is_here = not any(p.is_meta for p in parameters.values())
            if (
                is_here
                and any(map(_is_drawn, parameters.values()))
                and not _is_shared(parameters, layers)
            ):
                layers[number] = parameters
        if len(layers) > 1:
            groups_by_stack[name] = _group_equal_layers(layers)
    return groups_by_stack


def _is_drawn(parameter: torch.Tensor) -> bool:
    """A weight of more than one value. Gains of ones are alike in any two layers."""
    if parameter.dim() < 2 or not parameter.numel():
        return False
    sample = _sample_values(parameter)
    return bool((sample != sample[0]).any())


def _is_shared(parameters: Parameters, layers: Mapping[int, Parameters]) -> bool:
    drawn = {_memory_of(p) for p in parameters.values() if _is_drawn(p)}
    return any(drawn & {_memory_of(p) for p in other.values()} for other in layers.values())


def _memory_of(parameter: torch.Tensor) -> int:
    """Where the values lie; of what only wraps others, which object it is."""
    return parameter.data_ptr() if is_ordinary(parameter) else id(parameter)


def _group_equal_layers(layers: Mapping[int, Parameters]) -> tuple[tuple[int, ...], ...]:
    same_sample: dict[Hashable, list[int]] = defaultdict(list)
    for number, parameters in layers.items():
        same_sample[_fingerprint_layer(parameters)].append(number)
    groups: list[list[int]] = []
    for numbers in same_sample.values():
        equal: list[list[int]] = []
        for number in numbers:
            group = next((g for g in equal if _are_equal(layers[g[0]], layers[number])), None)
            if group is None:
                equal.append([number])
            else:
                group.append(number)
        groups += [group for group in equal if len(group) > 1]
    return tuple(sorted(tuple(group) for group in groups))


def _fingerprint_layer(parameters: Parameters) -> Hashable:
    """Of a few values of each: what differs here is not equal."""
    return tuple(
        (name, p.shape, p.dtype, tuple(_sample_values(p).tolist()))
        for name, p in sorted(parameters.items())
    )


def _sample_values(parameter: torch.Tensor) -> torch.Tensor:
    flat = plain_values("a parameter", parameter).reshape(-1)
    return flat[:: max(1, flat.numel() // _SAMPLE)][:_SAMPLE]


def _are_equal(one: Parameters, other: Parameters) -> bool:
    return all(
        torch.equal(plain_values(name, one[name]), plain_values(name, other[name])) for name in one
    )
