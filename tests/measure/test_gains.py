"""What the report says of a gain, against plain numpy on the vector that acts."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from normdiag.evidence.gains import Gain
from tests.measure.forwards import measure_sites

VECTOR = np.array([0.5, -2.0, 0.0, 1e-9, 1.25, -0.25, 7.0, 0.75], dtype=np.float32)


class Norm(nn.Module):
    """RMSNorm whose gain is made of what is stored."""

    def __init__(self, stored: np.ndarray, made) -> None:
        super().__init__()
        self.stored, self.made = nn.Parameter(torch.from_numpy(stored)), made

    def forward(self, x):
        y = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)
        return y * self.made(self.stored)


def gain(stored: np.ndarray, made=lambda w: w) -> Gain:
    torch.manual_seed(0)
    assembly, _ = measure_sites(Norm(stored, made), torch.randn(2, 5, len(stored)))
    (norm,) = assembly.sites.architecture.norms
    assert norm.gain is not None
    return norm.gain


@pytest.mark.parametrize(
    ("made", "offset"),
    [
        (lambda w: w, 0.0),
        (lambda w: 1 + w, 1.0),
        (lambda w: w + 1.0, 1.0),
        (lambda w: 1.0 + w.float(), 1.0),
        (lambda w: (w - 0.5).to(torch.float32), -0.5),
        (lambda w: 1 + (w + 1), 2.0),
    ],
)
def test_numbers_are_of_the_vector_that_acts(made, offset: float) -> None:
    found, acts = gain(VECTOR, made), VECTOR.astype(np.float64) + offset
    exact = {
        "rms": np.sqrt(np.mean(acts**2)),
        "mean": acts.mean(),
        "median_abs": np.median(np.abs(acts)),
        "min_abs": np.abs(acts).min(),
        "max_abs": np.abs(acts).max(),
    }
    for name, value in exact.items():
        assert getattr(found, name) == pytest.approx(value, rel=1e-6, abs=1e-9), name
    assert (found.negatives, found.max_channel) == ((acts < 0).sum(), np.abs(acts).argmax())
    assert found.offset == offset


def test_the_dead_are_those_far_below_the_living() -> None:
    found = gain(VECTOR)
    assert (found.zeros, found.dead) == (1, 2)  # 0, and 1e-9 beside a median of 0.75
    assert gain(np.full(8, 1e-30, dtype=np.float32)).dead == 0  # small, but all alike
    assert gain(np.zeros(8, dtype=np.float32)).dead == 8


def test_what_is_not_finite_is_left_out() -> None:
    found = gain(np.array([1.0, np.nan, -3.0, np.inf], dtype=np.float32))
    assert (found.nonfinite, found.mean, found.median_abs) == (2, -1.0, 2.0)
    assert (found.max_channel, found.negatives) == (2, 1)


def test_the_size_of_what_comes_out() -> None:
    torch.manual_seed(3)
    x = torch.randn(3, 7, 8)
    assembly, numbers = measure_sites(Norm(VECTOR, lambda w: w), x)
    (norm,) = assembly.sites.architecture.norms
    exact = x.double().numpy()
    exact = exact / np.sqrt(np.mean(exact**2, -1, keepdims=True) + 1e-6) * VECTOR.astype(float)
    assert numbers.norms[norm.id].output_rms == pytest.approx(np.sqrt(np.mean(exact**2)), rel=1e-6)
