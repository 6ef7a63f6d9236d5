"""The float16 statistic that a norm computes reproduces the output of the model, and no other."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import normdiag
from normdiag.evidence.replay import Replay

WIDTH = 32


class WrittenOut(nn.Module):
    """RMSNorm in the format of its input, from the sum or the mean of squares."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.how, self.gain = how, nn.Parameter(torch.linspace(0.5, 2.0, WIDTH))

    def forward(self, x):
        h = x.float() if self.how == "float32" else x
        if self.how == "sum":
            root = (h.square().sum(-1, keepdim=True) / WIDTH + 1e-5).sqrt()
            return h / root * self.gain
        root = torch.rsqrt(h.square().mean(-1, keepdim=True) + 1e-7)
        return (h * root).to(x.dtype) * self.gain


class Layer(nn.Module):
    def __init__(self, how: str) -> None:
        super().__init__()
        self.norm, self.fc = WrittenOut(how), nn.Linear(WIDTH, WIDTH, bias=False)

    def forward(self, x):
        return x + self.fc(self.norm(x))


def replay_first_norm(how: str, rms: float) -> tuple[Replay, torch.Tensor]:
    torch.manual_seed(3)
    model = nn.Sequential(Layer(how), Layer(how)).half()
    x = torch.randn(2, 6, WIDTH)
    x = (x * rms / x.square().mean(-1, keepdim=True).sqrt()).half()
    report = normdiag.inspect(model, inputs=x, measure=("stream", "norms"))
    return report.measurements.replay["0.norm"], x.double()


def test_a_sum_of_squares_beyond_float16() -> None:
    replay, x = replay_first_norm("sum", 64.0)
    half = replay.half_statistic
    assert half is not None and half.kind == "sum-overflow" and half.computed is None
    assert half.value == pytest.approx(float((x * x).sum(-1).max()), rel=1e-12)
    assert half.value > 65504 and replay.max_rel_error > 1
    assert half.max_rel_error < 1e-2


def test_a_mean_square_between_steps() -> None:
    replay, x = replay_first_norm("mean", 3.5e-4)
    half = replay.half_statistic
    assert half is not None and half.kind == "square-underflow"
    assert half.value == pytest.approx(float((x * x).mean(-1).min()), rel=1e-12)
    assert half.computed is not None
    assert half.computed * 2**24 == round(half.computed * 2**24)
    assert replay.max_rel_error > 1e-2 > half.max_rel_error


@pytest.mark.parametrize(("how", "rms"), [("sum", 1.0), ("float32", 64.0), ("float32", 3.5e-4)])
def test_none_where_float16_holds_the_statistic(how: str, rms: float) -> None:
    replay, _ = replay_first_norm(how, rms)
    assert replay.half_statistic is None and replay.max_rel_error < 1e-2
