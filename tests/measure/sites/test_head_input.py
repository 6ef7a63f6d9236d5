"""What the head, or the caller of a model without one, receives."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from tests.measure.forwards import measure_sites


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.ln, self.fc = nn.LayerNorm(8), nn.Linear(8, 8)

    def forward(self, x):
        return x + self.fc(self.ln(x))


class Model(nn.Module):
    def __init__(
        self, norm: nn.Module | None = None, scale: float | None = None, head: bool = True
    ) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(3))
        self.norm, self.scale = norm, scale
        self.head = nn.Linear(8, 20) if head else None
        self.received: torch.Tensor | None = None

    def forward(self, inputs_embeds, attention_mask=None):
        x = inputs_embeds
        for block in self.blocks:
            x = block(x)
        if self.norm is not None:
            x = self.norm(x)
        if self.scale is not None:
            x = x * self.scale
        self.received = x
        return x if self.head is None else self.head(x)


@pytest.mark.parametrize("head", [True, False])
@pytest.mark.parametrize("norm", [None, nn.LayerNorm(8), nn.RMSNorm(8)])
@pytest.mark.parametrize("mask", [None, torch.tensor([[1, 1, 0, 0], [1, 1, 1, 1]])])
def test_it_is_the_last_value_after_its_norm(
    head: bool, norm: nn.Module | None, mask: torch.Tensor | None
) -> None:
    torch.manual_seed(0)
    model = Model(norm, head=head).double()
    inputs = {"inputs_embeds": torch.randn(2, 4, 8, dtype=torch.float64)}
    if mask is not None:
        inputs["attention_mask"] = mask
    _, measurements = measure_sites(model, **inputs)
    received = model.received if mask is None else model.received[mask.bool()]
    head_input = measurements.head_input
    np.testing.assert_allclose(head_input.rms, float(received.square().mean().sqrt()), rtol=1e-12)
    np.testing.assert_allclose(head_input.max_abs, float(received.abs().max()), rtol=1e-12)


@pytest.mark.parametrize("scale", [0.125, -3.0])
@pytest.mark.parametrize("norm", [None, nn.LayerNorm(8)])
def test_a_constant_scale_before_the_head_counts(norm: nn.Module | None, scale: float) -> None:
    """T5 and MiniCPM multiply what the head receives by a number."""
    torch.manual_seed(0)
    model = Model(norm, scale).double()
    _, measurements = measure_sites(model, inputs_embeds=torch.randn(2, 4, 8, dtype=torch.float64))
    head_input = measurements.head_input
    expected = float(model.received.square().mean().sqrt())
    np.testing.assert_allclose(head_input.rms, expected, rtol=1e-12)
    np.testing.assert_allclose(head_input.max_abs, float(model.received.abs().max()), rtol=1e-12)


def test_without_a_stack_there_is_none() -> None:
    _, measurements = measure_sites(nn.Linear(8, 8), torch.randn(2, 4, 8))
    assert measurements.head_input is None


def test_what_is_not_finite_is_not_forgotten() -> None:
    x = torch.randn(2, 4, 8)
    x[1, 2, 3] = float("nan")
    _, measurements = measure_sites(Model(nn.LayerNorm(8)), inputs_embeds=x)
    assert np.isnan([measurements.head_input.rms, measurements.head_input.max_abs]).all()
