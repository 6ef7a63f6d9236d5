"""What one channel holds of a norm's input."""

from __future__ import annotations

import numpy as np
import torch
from torch import nn

from tests.measure.forwards import measure_sites


class Block(nn.Module):
    def __init__(self, norm: nn.Module) -> None:
        super().__init__()
        self.norm, self.fc = norm, nn.Linear(16, 16)

    def forward(self, x):
        return x + self.fc(self.norm(x))


def largest_share(norm: nn.Module, x: torch.Tensor) -> tuple[float | None, int | None]:
    _, measurements = measure_sites(nn.Sequential(Block(norm), Block(norm)), x)
    first = measurements.norms["0.norm"]
    return first.channel_share, first.dominant_channel


def test_the_median_token_counts() -> None:
    torch.manual_seed(0)
    x = torch.randn(3, 7, 16)
    x[..., 5] += 4
    x[0, 0, 9] = 1e6  # a massive activation of one token
    measurements, channel = largest_share(nn.LayerNorm(16), x)
    rows = x.reshape(-1, 16).double().numpy()
    shares = np.median(rows**2 / (rows**2).sum(-1, keepdims=True), axis=0)
    assert channel == shares.argmax() == 5
    np.testing.assert_allclose(measurements, shares.max(), rtol=1e-12)


def test_zeros_are_left_out() -> None:
    x = torch.zeros(1, 8, 16)
    assert largest_share(nn.LayerNorm(16), x) == (None, None)
    x[0, :3, 4] = 2
    assert largest_share(nn.LayerNorm(16), x) == (1.0, 4)


def test_a_batch_norm_has_no_vectors_of_channels() -> None:
    class Channels(nn.BatchNorm1d):
        def forward(self, x):
            return super().forward(x.transpose(1, 2)).transpose(1, 2)

    assert largest_share(Channels(16).eval(), torch.randn(2, 4, 16)) == (None, None)
