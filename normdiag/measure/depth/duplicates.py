"""Layers of one stack that are modules of their own and hold the same parameters."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Mapping

import torch
from torch import nn

from normdiag.capture.scopes import plain_path
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
    found = {}
    for name, stack in stacks.items():
        layers: dict[int, Parameters] = {}
        for number, frame in enumerate(stack.layers.frames):
            module = modules.get(plain_path(frame.path)) if frame is not None else None
            own = {} if module is None else dict(module.named_parameters())
            is_here = not any(p.is_meta for p in own.values())
            if is_here and any(map(_is_drawn, own.values())) and not _is_shared(own, layers):
                layers[number] = own
        if len(layers) > 1:
            found[name] = _group_equal_layers(layers)
    return found


def _is_drawn(parameter: torch.Tensor) -> bool:
    """A weight of more than one value. Gains of ones are alike in any two layers."""
    if parameter.dim() < 2 or not parameter.numel():
        return False
    sample = _sample_values(parameter)
    return bool((sample != sample[0]).any())


def _is_shared(own: Parameters, layers: Mapping[int, Parameters]) -> bool:
    drawn = {p.data_ptr() for p in own.values() if _is_drawn(p)}
    return any(drawn & {p.data_ptr() for p in other.values()} for other in layers.values())


def _group_equal_layers(layers: Mapping[int, Parameters]) -> tuple[tuple[int, ...], ...]:
    alike: dict[Hashable, list[int]] = defaultdict(list)
    for number, own in layers.items():
        alike[_fingerprint_layer(own)].append(number)
    groups: list[list[int]] = []
    for numbers in alike.values():
        equal: list[list[int]] = []
        for number in numbers:
            home = next((g for g in equal if _are_equal(layers[g[0]], layers[number])), None)
            if home is None:
                equal.append([number])
            else:
                home.append(number)
        groups += [group for group in equal if len(group) > 1]
    return tuple(sorted(tuple(group) for group in groups))


def _fingerprint_layer(own: Parameters) -> Hashable:
    """Of a few values of each: what differs here is not equal."""
    return tuple(
        (name, p.shape, p.dtype, tuple(_sample_values(p).tolist()))
        for name, p in sorted(own.items())
    )


def _sample_values(parameter: torch.Tensor) -> torch.Tensor:
    flat = parameter.detach().reshape(-1)
    return flat[:: max(1, flat.numel() // _SAMPLE)][:_SAMPLE]


def _are_equal(one: Parameters, other: Parameters) -> bool:
    return all(torch.equal(one[name], other[name]) for name in one)
