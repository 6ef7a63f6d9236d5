"""The largest magnitude of a tensor, whatever it holds, and which values are looked at."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from normdiag.measure.statistics.peaks import largest_magnitude
from normdiag.measure.statistics.slab import Slab
from tests.measure.forwards import accumulate_forward

DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@settings(deadline=None, max_examples=20)
@given(seed=st.integers(0, 999), keep=st.lists(st.integers(0, 5), unique=True))
def test_of_any_format_and_any_rows(dtype: torch.dtype, seed: int, keep: list[int]) -> None:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(2, 3, 4, dtype=torch.complex64, generator=generator)
    x = x if dtype.is_complex else x.real.to(dtype)
    assert float(largest_magnitude(x, None, Slab())) == float(x.abs().max())
    rows = torch.tensor(keep, dtype=torch.long)
    expected = float(x.reshape(6, 4)[rows].abs().max()) if keep else 0.0
    assert float(largest_magnitude(x, rows, Slab())) == expected


@pytest.mark.parametrize("bad", [math.inf, -math.inf, math.nan])
def test_what_is_not_finite_is_the_largest(bad: float) -> None:
    x = torch.randn(3, 4)
    x[1, 2] = bad
    magnitude = float(largest_magnitude(x, None, Slab()))
    assert math.isnan(magnitude) if math.isnan(bad) else magnitude == math.inf
    assert math.isfinite(float(largest_magnitude(x, torch.tensor([0, 2]), Slab())))


def test_complex_products_on_a_branch() -> None:
    """A branch that multiplies two spectra, as a long convolution does."""

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.ln, self.up, self.out = nn.LayerNorm(8), nn.Linear(8, 16), nn.Linear(8, 8)

        def forward(self, x):
            a, b = torch.fft.rfft(self.up(self.ln(x)), dim=1).chunk(2, -1)
            return x + self.out(torch.fft.irfft(a * b, n=x.shape[1], dim=1))

    torch.manual_seed(0)
    model = nn.Sequential(Block(), Block()).eval()
    peaks = accumulate_forward(model, torch.randn(1, 6, 8)).branch_peaks.compute().inner
    products = {peak.id: peak for peak in peaks if peak.kind == "product"}
    assert set(products) == {"0/product#0", "1/product#0"}
    for block in "01":
        product = products[f"{block}/product#0"]
        assert (product.module, product.number, product.add) == (block, 0, f"{block}/add#0")
        assert product.value > 0
