"""Gradients where a forward overwrites what the backward needs, and where much of it is empty."""

from __future__ import annotations

import pytest
import torch

from normdiag.measure.passes.overwritten_values import keep_overwritten_values

EXPERTS = 30


def _mix_experts(x: torch.Tensor, chosen: dict[int, int]) -> torch.Tensor:
    """Sum of exp(x) x, row by row: each expert takes the one row that chose it, most take none."""
    y = torch.zeros_like(x)
    for expert in range(EXPERTS):
        (rows,) = torch.where(torch.tensor([chosen.get(r) == expert for r in range(len(x))]))
        y[rows] += x[rows].exp() * x[rows]
    return y.sum()


@pytest.mark.parametrize("chosen", [{}, {1: 3}, {0: 0, 2: 17, 3: 17}])
def test_experts_without_tokens(chosen: dict[int, int]) -> None:
    x = torch.randn(4, 3, dtype=torch.float64, requires_grad=True)
    with keep_overwritten_values():
        (gradient,) = torch.autograd.grad(_mix_experts(x, chosen), x)
    wanted = ((1 + x) * x.exp()).detach()
    wanted[[row for row in range(4) if row not in chosen]] = 0
    torch.testing.assert_close(gradient, wanted)


def test_values_that_are_overwritten() -> None:
    x = torch.randn(5, dtype=torch.float64, requires_grad=True)
    with keep_overwritten_values():
        y = x * 1.0
        squared = y**2  # its derivative needs y as it was
        y.sin_()
        (gradient,) = torch.autograd.grad((squared + y).sum(), x)
    torch.testing.assert_close(gradient, (2 * x + x.cos()).detach())
