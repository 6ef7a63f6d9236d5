"""Modules that accelerate has dispatched, as a caller hands them over."""

from __future__ import annotations

from contextlib import contextmanager
from copy import deepcopy

import pytest
import torch
from accelerate import cpu_offload
from accelerate.hooks import AlignDevicesHook, add_hook_to_module
from torch import nn

import normdiag
from normdiag.errors import LoadError
from normdiag.loading.offloaded_weights import (
    WeightReader,
    follow_offloaded_weights,
    list_offloaded,
)


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.fc = nn.LayerNorm(16), nn.Linear(16, 16)

    def forward(self, x):
        return x + self.fc(self.norm(x))


class Model(nn.Module):
    def __init__(self, layers: int = 3) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Block() for _ in range(layers))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


@pytest.fixture
def model() -> nn.Module:
    torch.manual_seed(0)
    made = Model().eval()
    for norm in (layer.norm for layer in made.layers):
        nn.init.normal_(norm.weight, 1.0, 0.3)
    return made


INPUTS = (torch.linspace(-1, 2, 64).reshape(1, 4, 16),)


def measure(model: nn.Module):
    return normdiag.inspect(model, inputs=INPUTS, measure=("stream", "norms"))


def test_a_dispatched_module_has_the_numbers_of_the_plain_one(model: nn.Module) -> None:
    plain = measure(model)
    offloaded = measure(cpu_offload(deepcopy(model)))
    assert offloaded.architecture == plain.architecture
    for name in ("stream", "norms", "branch_weights", "weights", "duplicates"):
        assert getattr(offloaded.measurements, name) == getattr(plain.measurements, name), name


def test_the_hooks_are_left_as_they_were(model: nn.Module) -> None:
    cpu_offload(model)
    hooks = [m._hf_hook for m in model.modules() if hasattr(m, "_hf_hook")]
    before = [dict(vars(hook)) for hook in hooks]
    measure(model)
    for hook, fields in zip(hooks, before, strict=True):
        assert vars(hook).keys() - fields.keys() <= {"tied_pointers_to_remove"}
        assert not {"pre_forward", "post_forward"} & vars(hook).keys()
    assert all(parameter.is_meta for parameter in model.parameters())


def test_copied_layers_are_found_where_they_lie_elsewhere(model: nn.Module) -> None:
    model.layers[2] = deepcopy(model.layers[0])
    duplicates = measure(cpu_offload(model)).measurements.duplicates
    assert duplicates == {"layers": ((0, 2),)}


def test_offloaded_tensors_are_listed_and_read(model: nn.Module) -> None:
    plain = {name: value.clone() for name, value in model.named_parameters()}
    cpu_offload(model)
    assert list_offloaded(model) == plain.keys()
    reader = WeightReader(model)
    for name, parameter in model.named_parameters():
        assert torch.equal(reader.read_values(name, parameter), plain[name])


def test_a_lost_file_is_named(model: nn.Module) -> None:
    cpu_offload(model)
    hook = model.layers[1].fc._hf_hook
    hook.weights_map = {"bias": torch.zeros(16)}
    name = "layers.1.fc.weight"
    with pytest.raises(LoadError, match=f"offloaded tensor {name} cannot be read"):
        WeightReader(model).read_values(name, dict(model.named_parameters())[name])


class Follower:
    """Notes what it is told of."""

    def __init__(self) -> None:
        self.is_paused = False
        self.weights: list[str] = []
        self.copies: list[tuple[torch.Tensor, torch.Tensor]] = []

    @contextmanager
    def pause_recording(self):
        self.is_paused = True
        yield
        self.is_paused = False

    def rebind_weight(self, name, tensor) -> None:
        assert not tensor.is_meta
        self.weights.append(name)

    def rebind_copy(self, original, copy) -> None:
        self.copies.append((original, copy))


def test_values_that_are_moved_between_devices_are_told(model: nn.Module) -> None:
    """A hook that copies its arguments stands for one that moves them to another device."""

    class Moving(AlignDevicesHook):
        def pre_forward(self, module, *args, **kwargs):
            assert follower.is_paused
            args, kwargs = super().pre_forward(module, *args, **kwargs)
            return tuple(each.clone() for each in args), kwargs

    follower = Follower()
    weights = {name: value.data for name, value in model.layers[0].fc.named_parameters()}
    hook = Moving(execution_device="cpu", offload=True, weights_map=weights)
    add_hook_to_module(model.layers[0].fc, hook)
    with torch.no_grad(), follow_offloaded_weights(model, follower):
        model(*INPUTS)
    assert follower.weights == ["layers.0.fc.weight", "layers.0.fc.bias"]
    ((original, copy),) = follower.copies
    assert original is not copy and torch.equal(original, copy)
