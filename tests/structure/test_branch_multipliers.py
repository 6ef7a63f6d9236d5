"""Stored tensors that multiply a branch, whatever their name and kind, with their values."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import normdiag

SIZES = (0.5, 300.0, 0.0)


class Gated(nn.Module):
    """x + F(N(x) * t) with a stored t: a buffer or a parameter, one number or one per feature."""

    def __init__(self, size: torch.Tensor, is_buffer: bool) -> None:
        super().__init__()
        self.n, self.f = nn.LayerNorm(8), nn.Linear(8, 8)
        if is_buffer:
            self.register_buffer("q", size)
        else:
            self.q = nn.Parameter(size)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + torch.tanh(self.f(self.n(x) * self.q))


@pytest.mark.parametrize("is_buffer", [True, False])
def test_one_number(is_buffer: bool) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(*(Gated(torch.tensor(size), is_buffer) for size in SIZES))
    report = normdiag.inspect(model, inputs=torch.randn(2, 5, 8), measure="stream")
    named = [
        [(each.name, each.value) for each in add.multipliers]
        for add in report.architecture.residual_adds
    ]
    assert named == [[(f"{layer}.q", size)] for layer, size in enumerate(SIZES)]
