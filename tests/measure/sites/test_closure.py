"""Closure: a stream that is read right closes, one that something hidden writes to does not."""

from __future__ import annotations

import importlib
from collections.abc import Callable

import pytest
import torch
from torch import nn

from tests.measure.forwards import measure_sites

OPEN = [
    "pre_norm:build",
    "pre_norm_shared:build",
    "post_norm:build",
    "rms_pre_norm:build",
    "sandwich:build",
    "branch_output:build",
    "parallel:build",
    "no_norm:build",
    "batch_norm:build",
    "scaled_branch:build",
    "hidden_write:build_healthy",
    "unexplained_add:build_healthy",
    "dead_branch:build",
    "cancelling_add:build",
]


@pytest.mark.parametrize("target", OPEN)
def test_every_sample_that_hides_nothing_closes(target: str) -> None:
    module, name = target.split(":")
    model, inputs = getattr(importlib.import_module(f"sample_models.{module}"), name)()
    assembly, measurements = measure_sites(model, inputs)
    assert measurements.closure.keys() == assembly.sites.stacks.keys()
    for closure in measurements.closure.values():
        assert closure.max_rel_error < 1e-5


class Block(nn.Module):
    def __init__(self, write: Callable[[torch.Tensor], torch.Tensor] | None) -> None:
        super().__init__()
        self.ln, self.fc = nn.LayerNorm(16), nn.Linear(16, 16)
        self.write = write

    def forward(self, x):
        x = x + self.fc(self.ln(x))
        return x if self.write is None else self.write(x)


class Stream(nn.Module):
    """Six pre-norm blocks; block 2 does something more to the stream."""

    def __init__(self, write: Callable[[torch.Tensor], torch.Tensor] | None) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Block(write if i == 2 else None) for i in range(6))
        self.ln_f = nn.LayerNorm(16)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.ln_f(x)


def through_numpy(x: torch.Tensor) -> torch.Tensor:
    """Shares the memory, not the bookkeeping."""
    x.numpy()[..., 3] += 1
    return x


def in_place(x: torch.Tensor) -> torch.Tensor:
    x[..., 3] += 1
    return x


def as_vector(x: torch.Tensor) -> torch.Tensor:
    return x + torch.linspace(0, 1, 16)


def clamp_output(x: torch.Tensor) -> torch.Tensor:
    return x.clamp(-0.5, 0.5)


@pytest.mark.parametrize("write", [through_numpy, in_place, clamp_output])
def test_what_no_add_wrote_breaks_it_there(write: Callable[[torch.Tensor], torch.Tensor]) -> None:
    torch.manual_seed(0)
    _, measurements = measure_sites(Stream(write), torch.randn(2, 5, 16))
    (closure,) = measurements.closure.values()
    assert closure.max_rel_error > 0.05
    assert closure.layer in (2, 3)


@pytest.mark.parametrize("write", [None, as_vector])
def test_and_nothing_breaks_it_otherwise(
    write: Callable[[torch.Tensor], torch.Tensor] | None,
) -> None:
    """Behind a constant, which is no branch's, the sum begins again."""
    torch.manual_seed(0)
    _, measurements = measure_sites(Stream(write), torch.randn(2, 5, 16))
    (closure,) = measurements.closure.values()
    assert closure.max_rel_error < 1e-6


@pytest.mark.parametrize("factor", [0.5, -2.0])
def test_a_constant_scale_on_the_stream_is_carried_on(factor: float) -> None:
    torch.manual_seed(0)
    _, measurements = measure_sites(Stream(lambda x: x * factor), torch.randn(2, 5, 16))
    (closure,) = measurements.closure.values()
    assert closure.max_rel_error < 1e-6


def test_a_write_to_a_part_of_the_tokens_is_seen_too() -> None:
    def first_token(x: torch.Tensor) -> torch.Tensor:
        x.numpy()[:, 0] += 1
        return x

    torch.manual_seed(0)
    _, measurements = measure_sites(Stream(first_token), torch.randn(2, 5, 16))
    (closure,) = measurements.closure.values()
    assert closure.max_rel_error > 0.05


def to_windows(x: torch.Tensor) -> torch.Tensor:
    return x.view(2, 2, 3, 16).transpose(1, 2).reshape(2, 6, 16)


REORDERED: list[Callable[[torch.Tensor], torch.Tensor]] = [
    lambda x: x.transpose(0, 1),
    lambda x: x.roll(1, 1),
    lambda x: x.flip(1),
    to_windows,
]


@pytest.mark.parametrize("write", REORDERED, ids=("transposed", "rolled", "flipped", "windows"))
def test_tokens_in_another_order_are_followed(
    write: Callable[[torch.Tensor], torch.Tensor],
) -> None:
    torch.manual_seed(0)
    _, measurements = measure_sites(Stream(write), torch.randn(2, 6, 16))
    (closure,) = measurements.closure.values()
    assert closure.max_rel_error < 1e-6


class FlattenedNorm(nn.Module):
    """As post-norm OPT: tokens of all sequences lie behind each other in the second branch."""

    def __init__(self) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(16) for _ in range(2))
        self.branches = nn.ModuleList(nn.Linear(16, 16) for _ in range(2))

    def forward(self, x):
        flat = self.norms[0](x + self.branches[0](x)).reshape(-1, 16)
        return self.norms[1]((flat + self.branches[1](flat)).view(x.shape))


def test_a_norm_whose_output_is_a_view_is_followed() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(*(FlattenedNorm() for _ in range(4)))
    _, measurements = measure_sites(model, torch.randn(2, 6, 16))
    (closure,) = measurements.closure.values()
    assert closure.max_rel_error < 1e-6


def test_and_what_no_add_wrote_still_breaks_it() -> None:
    torch.manual_seed(0)
    model = Stream(lambda x: through_numpy(x).transpose(0, 1))
    _, measurements = measure_sites(model, torch.randn(2, 6, 16))
    (closure,) = measurements.closure.values()
    assert closure.max_rel_error > 0.05
    assert closure.layer in (2, 3)


class BiasedSkip(nn.Module):
    """The bias of the branch is added to the skip, as a matrix product with an addition does."""

    def __init__(self) -> None:
        super().__init__()
        self.ln, self.fc = nn.LayerNorm(16), nn.Linear(16, 16)
        self.bias = nn.Parameter(torch.linspace(0, 1, 16))

    def forward(self, x):
        return (x + self.bias) + self.fc(self.ln(x))


def test_the_bias_of_a_branch_on_the_skip_breaks_nothing() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(*(BiasedSkip() for _ in range(4)), nn.LayerNorm(16))
    _, measurements = measure_sites(model, torch.randn(2, 5, 16))
    (closure,) = measurements.closure.values()
    assert closure.max_rel_error < 1e-6
