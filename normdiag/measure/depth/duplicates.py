"""Layers of one stack that are modules of their parameters and hold the same parameters."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Mapping

import torch
from torch import nn

from normdiag.capture.scopes import plain_path
from normdiag.loading.offloaded_weights import WeightReader
from normdiag.loading.plain_values import is_ordinary, plain_values
from normdiag.structure.stack_structure import StackStructure

_SAMPLE = 64


class _Layer:
    """The parameters of one layer. A few values of each are kept; all are read to be compared."""

    def __init__(self, path: str, module: nn.Module, reader: WeightReader) -> None:
        self._path, self._reader = path, reader
        self.parameters = dict(module.named_parameters())
        self.samples = {name: _sample_values(self.read(name)) for name in self.parameters}

    def read(self, name: str) -> torch.Tensor:
        path = f"{self._path}.{name}".lstrip(".")
        return plain_values(path, self._reader.read_values(path, self.parameters[name]))

    @property
    def has_values(self) -> bool:
        return not any(sample.is_meta for sample in self.samples.values())

    @property
    def drawn(self) -> set[str]:
        """Weights of more than one value. Gains of ones are alike in any two layers."""
        return {
            name
            for name, sample in self.samples.items()
            if self.parameters[name].dim() >= 2 and bool((sample != sample[:1]).any())
        }

    def fingerprint(self) -> Hashable:
        """Of the few values of each: what differs here is not equal."""
        return tuple(
            (name, p.shape, p.dtype, tuple(self.samples[name].tolist()))
            for name, p in sorted(self.parameters.items())
        )


def find_duplicate_layers(
    model: nn.Module, stacks: Mapping[str, StackStructure]
) -> dict[str, tuple[tuple[int, ...], ...]]:
    """Stack id -> groups of equal layers, for stacks of several modules with weights.

    Shared parameters are no duplicates: a module that runs twice, or whose weights are tied.
    """
    modules = {plain_path(path): (path, module) for path, module in model.named_modules()}
    reader = WeightReader(model)
    groups_by_stack = {}
    for name, stack in stacks.items():
        layers: dict[int, _Layer] = {}
        for number, frame in enumerate(stack.layers.frames):
            found = modules.get(plain_path(frame.path)) if frame is not None else None
            if found is None:
                continue
            layer = _Layer(*found, reader)
            if layer.has_values and layer.drawn and not _is_shared(layer, layers):
                layers[number] = layer
        if len(layers) > 1:
            groups_by_stack[name] = _group_equal_layers(layers)
    return groups_by_stack


def _is_shared(layer: _Layer, layers: Mapping[int, _Layer]) -> bool:
    drawn = {_memory_of(layer.parameters[name]) for name in layer.drawn}
    return any(
        drawn & {_memory_of(p) for p in other.parameters.values()} for other in layers.values()
    )


def _memory_of(parameter: torch.Tensor) -> int:
    """Where the values lie; of what wraps others or lies elsewhere, which object it is."""
    is_here = is_ordinary(parameter) and not parameter.is_meta
    return parameter.data_ptr() if is_here else id(parameter)


def _group_equal_layers(layers: Mapping[int, _Layer]) -> tuple[tuple[int, ...], ...]:
    same_sample: dict[Hashable, list[int]] = defaultdict(list)
    for number, layer in layers.items():
        same_sample[layer.fingerprint()].append(number)
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


def _sample_values(values: torch.Tensor) -> torch.Tensor:
    """Copies, so that what was read for them can go."""
    flat = values.detach().reshape(-1)
    return flat[:: max(1, flat.numel() // _SAMPLE)][:_SAMPLE].clone()


def _are_equal(one: _Layer, other: _Layer) -> bool:
    return all(torch.equal(one.read(name), other.read(name)) for name in one.parameters)
