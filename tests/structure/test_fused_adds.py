"""A residual add inside a matrix product is an add like any other."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import normdiag
from normdiag.report.report import Report
from tests.structure.signature import signature

IDS = torch.arange(32).view(2, 16) % 11
Write = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]


class Layer(nn.Module):
    """x + h W, where `write(x, h, W)` says how."""

    def __init__(self, write: Write) -> None:
        super().__init__()
        self.write = write
        self.norm, self.up = nn.LayerNorm(16), nn.Linear(16, 32)
        self.weight = nn.Parameter(0.1 * torch.randn(32, 16))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.write(x, F.gelu(self.up(self.norm(x))), self.weight)


class Net(nn.Module):
    def __init__(self, write: Write) -> None:
        super().__init__()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            self.embed = nn.Embedding(11, 16)
            self.layers = nn.ModuleList(Layer(write) for _ in range(3))
            self.norm = nn.LayerNorm(16)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.embed(ids)
        for layer in self.layers:
            x = layer(x)
        return self.norm(x)


def report_of(write: Write) -> Report:
    return normdiag.inspect(Net(write).eval(), inputs=IDS, measure=("stream", "norms"))


def _addmm(x: torch.Tensor, h: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return torch.addmm(x.flatten(0, 1), h.flatten(0, 1), weight).view_as(x)


def _baddbmm(x: torch.Tensor, h: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return torch.baddbmm(x, h, weight.expand(len(x), -1, -1))


def _linear_bias(x: torch.Tensor, h: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return x + F.linear(h, weight.T, bias=weight.new_zeros(16))


@pytest.mark.parametrize("write", [_addmm, _baddbmm, _linear_bias])
def test_it_is_the_same_add(write: Write) -> None:
    expected = report_of(lambda x, h, weight: x + h @ weight)
    report = report_of(write)
    assert signature(report) == signature(expected)
    assert report.architecture.stacks[0].placement == "pre"
    assert report.findings == ()
    for name, there in expected.measurements.stream.items():
        here = report.measurements.stream[name]
        for part in ("skip_norm", "branch_norm", "out_norm", "cosine"):
            a, b = (dataclasses.asdict(getattr(m, part)) for m in (here, there))
            assert a == pytest.approx(b, rel=1e-4, abs=1e-6)
    assert max(r.max_rel_error for r in report.measurements.replay.values()) < 1e-5


def test_a_product_that_is_scaled_on_the_way_replays() -> None:
    report = report_of(
        lambda x, h, weight: torch.baddbmm(x, h, weight.expand(len(x), -1, -1), alpha=0.5)
    )
    halved = report_of(lambda x, h, weight: x + 0.5 * (h @ weight))
    for name, there in halved.measurements.stream.items():
        here = report.measurements.stream[name]
        assert here.branch_norm.mean == pytest.approx(there.branch_norm.mean, rel=1e-4)
    assert max(r.max_rel_error for r in report.measurements.replay.values()) < 1e-5


def test_more_than_two_terms_of_a_stack_are_one_write() -> None:
    def write(x: torch.Tensor, h: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return torch.stack([x, h @ weight, h.tanh() @ weight]).sum(0)

    report = report_of(write)
    (stack,) = report.architecture.stacks
    assert (stack.layers, stack.residual_adds_per_layer) == (3, 1)
    assert {a.branches for a in report.architecture.residual_adds} == {2}
    assert max(r.max_rel_error for r in report.measurements.replay.values()) < 1e-5
