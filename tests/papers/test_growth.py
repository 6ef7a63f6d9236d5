"""What a write does to the stream's size and direction: T14 and T15. (T13: tests/numerics.)

Heimersheim and Turner 2023 (residual stream norms grow exponentially over the forward pass), Men
et al. 2024 (ShortGPT, 2403.03853): block influence BI = 1 - cos(x, x + u).
"""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import normdiag
from sample_models import theory


class Turning(nn.Module):
    """x + r R x, R a quarter turn in every pair of channels: writes orthogonal to the stream, of
    the size that makes it `factors` times as long."""

    def __init__(self, factors: list[float]) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(2, 2, bias=False) for _ in factors)
        for factor, layer in zip(factors, self.layers, strict=True):
            ratio = math.sqrt(factor**2 - 1)
            layer.weight = nn.Parameter(ratio * torch.tensor([[0.0, -1.0], [1.0, 0.0]]))

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = x + layer(x.unflatten(-1, (-1, 2))).flatten(-2)
        return x


@pytest.mark.parametrize("factor", [1.02, 1.045, 1.1])
def test_t14_block_influence_is_growth_where_writes_are_orthogonal(factor: float) -> None:
    """BI = 1 - 1/g, angular distance arccos(1/g) / pi (1e-3 at d = 4096), and the growth is g."""
    x = torch.randn(1, 8, 4096, generator=torch.Generator().manual_seed(0))
    model = Turning([factor] * 40)
    measured = normdiag.inspect(model, inputs=x, measure=("stream",)).measurements
    assert len(measured.layers) == 40
    for layer in measured.layers.values():
        assert layer.block_influence == pytest.approx(1 - 1 / factor, abs=1e-3)
        assert layer.angular_distance == pytest.approx(math.acos(1 / factor) / math.pi, abs=1e-3)
    (growth,) = measured.growth.values()
    if factor**39 >= 3:  # less could be any law
        assert growth.law == "geometric" and growth.rate == pytest.approx(factor, rel=1e-4)


def test_growth_in_phases_is_told_from_one_law() -> None:
    """As in GPT-2 XL: 1.045 per layer from layer 5 to 41, faster before and behind."""
    x = torch.randn(1, 8, 64, generator=torch.Generator().manual_seed(0))
    model = Turning([1.3] * 5 + [1.045] * 36 + [1.2] * 7)
    (growth,) = normdiag.inspect(model, inputs=x, measure=("stream",)).measurements.growth.values()
    assert [p.factor for p in growth.phases] == pytest.approx([1.3, 1.045, 1.2], rel=1e-4)
    # an add where two lines meet is on both
    assert [p.first for p in growth.phases] == pytest.approx([0, 4.5, 40.5], abs=0.5)
    assert [p.last for p in growth.phases] == pytest.approx([3.5, 39.5, 47], abs=0.5)


def traces(source: str) -> normdiag.Report:
    if source == "tiny_llama":
        return normdiag.trace("sample_models/tiny_llama", measure=("stream",))
    model, inputs = theory.build(source)
    return normdiag.trace(model, inputs=inputs, measure=("stream",))


@pytest.mark.parametrize("source", ["tiny_llama", "pre", "lns", "scaled-init", "layer-scale"])
def test_t15_a_layer_grows_by_no_more_than_it_writes(source: str) -> None:
    """g - 1 <= (||attention|| + ||mlp||) / ||x|| at every token of every layer but the first."""
    report = traces(source)
    adds = sorted(report.architecture.residual_adds, key=lambda add: add.depth)
    for trace in report.trace:
        y = np.array([trace.out_norm[add.id] for add in adds])
        u = np.array([trace.update_ratio[add.id] for add in adds])[1:] * y[:-1]
        x, out, written = y[1:-1:2], y[3::2], u[1::2] + u[2::2]
        assert (out / x - 1 <= written / x + 1e-6).all()
        assert (out > x).any()
