"""Tokens that become one: T18 and T19.

Dong et al. 2021 (2103.03404), Noci et al. 2022 (2206.03126).
"""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import normdiag
from sample_models import attention_only


def residual_share(layers: int, skip: bool, seed: int) -> float:
    """||X - 1 x'||_F / ||X||_F, x the mean token: what `offset_share` leaves."""
    model, inputs = attention_only.build(layers, skip, seed, shape=(1, 32))
    report = normdiag.inspect(model.double(), inputs=inputs.double(), measure=("norms",))
    return math.sqrt(1 - report.measurements.norms["norm"].offset_share)


@pytest.mark.parametrize("seed", range(2))
def test_t18_pure_attention_collapses_and_a_skip_prevents_it(seed: int) -> None:
    """Below 1e-5 after 3 layers; with skips above .1 after 12. Doubly exponential at first."""
    first, second, third = (residual_share(n, False, seed) for n in (1, 2, 3))
    assert third < 1e-5
    assert math.log(third) / math.log(second) > 2 < math.log(second) / math.log(first)
    assert residual_share(12, True, seed) > 0.1


def query_over_value(cosine: float, seed: int) -> float:
    """||dL/dW_Q|| / ||dL/dW_V|| of one attention on 16 tokens of this cosine, L linear."""
    draws = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=draws, dtype=torch.float64)

    common, own = normal(1, 64), normal(16, 64)
    x = math.sqrt(cosine) * common + math.sqrt(1 - cosine) * own
    query, key, value = ((normal(64, 64) / 8).requires_grad_() for _ in range(3))
    written = ((x @ query) @ (x @ key).T / 8).softmax(-1) @ (x @ value)
    of_query, of_value = torch.autograd.grad((written * normal(16, 64)).sum(), (query, value))
    return float(of_query.norm() / of_value.norm())


def test_t19_alike_tokens_leave_no_gradient_for_the_query() -> None:
    """3.2e-3 at cosine .99 (30 %, mean of 20 draws), none at 1 (1e-12)."""
    assert np.mean([query_over_value(0.99, s) for s in range(20)]) == pytest.approx(3.2e-3, rel=0.3)
    assert max(query_over_value(1.0, s) for s in range(5)) < 1e-12


class Scaled(nn.Module):
    """x + W x / sqrt(L), L times: what scaled attention without norms does to tokens all alike."""

    def __init__(self, layers: int, width: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width, width, bias=False) for _ in range(layers))
        for layer in self.layers:
            nn.init.normal_(layer.weight, std=width**-0.5)

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = x + len(self.layers) ** -0.5 * layer(x)
        return x


@cache
def mean_square(layers: int, seed: int, width: int = 192) -> float:
    torch.manual_seed(seed)
    model, x = Scaled(layers, width).eval(), torch.randn(2, 16, width)
    adds = normdiag.inspect(model, inputs=x, measure=("stream",)).measurements.stream.values()
    return list(adds)[-1].rms.out ** 2


@pytest.mark.parametrize("layers", [6, 24, pytest.param(96, marks=pytest.mark.slow)])
def test_t19_branches_over_root_depth_keep_the_size(layers: int) -> None:
    """q_L = (1 + 1/L)^L, which goes to e (6 %)."""
    q = np.mean([mean_square(layers, seed) for seed in range(4)])
    assert q == pytest.approx((1 + 1 / layers) ** layers, rel=0.06)
