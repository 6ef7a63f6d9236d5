"""Bins of a vector against numpy's, and the vectors that have no width or too much of it."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from normdiag.numerics.histogram import BINS, count_bins


@pytest.mark.parametrize("offset", [0.0, 1.0, -300.0])
def test_counts_are_those_of_numpy(offset: float) -> None:
    values = np.random.default_rng(0).normal(offset, 0.3, 5000)
    found = count_bins(torch.from_numpy(values))
    assert list(found.counts) == np.histogram(values, BINS)[0].tolist()
    assert (found.min, found.max) == (values.min(), values.max())


@pytest.mark.parametrize("value", [0.0, 1.0, 1e308])
def test_equal_numbers_are_all_in_the_first_bin(value: float) -> None:
    found = count_bins(torch.full((7,), value, dtype=torch.float64))
    assert (found.min, found.max) == (value, value)
    assert found.counts == (7,) + (0,) * (BINS - 1)


@pytest.mark.parametrize(("low", "high"), [(-1.7e308, 1.7e308), (1.0, 1.0 + 2**-52)])
def test_ends_far_apart_and_ends_side_by_side(low: float, high: float) -> None:
    found = count_bins(torch.tensor([low, low, high], dtype=torch.float64))
    assert (found.counts[0], found.counts[-1], sum(found.counts)) == (2, 1, 3)
