"""The numbers of a matrix whose singular values are known."""

import math
from dataclasses import astuple

import numpy as np
import pytest
import torch

from normdiag.numerics.matrix_spectrum import compute_matrix_spectrum


def matrix(*values):
    """With these singular values, in random directions."""
    generator = torch.Generator().manual_seed(0)
    size = len(values)
    left, right = (
        torch.linalg.qr(torch.randn(size, size, generator=generator, dtype=torch.float64)).Q
        for _ in range(2)
    )
    return left @ torch.diag(torch.tensor(values, dtype=torch.float64)) @ right.T


@pytest.mark.parametrize("least", [0.5, 1e-3, 1e-5, 1e-9, 1e-12])
def test_both_ends_however_far_apart(least):
    found = compute_matrix_spectrum(matrix(4.0, 2.0, 1.0, least))
    assert found.sigma_max == pytest.approx(4.0, rel=1e-12)
    assert found.sigma_min == pytest.approx(least, rel=1e-3)
    assert found.mean_square == pytest.approx((16 + 4 + 1 + least**2) / 4, rel=1e-12)


def test_zeros_are_left_out_of_the_smallest_alone():
    found = compute_matrix_spectrum(matrix(4.0, 2.0, 1e-11, 0.0), zeros=2)
    assert found.sigma_min == pytest.approx(2.0, rel=1e-12)
    assert found.mean_square == pytest.approx(5.0, rel=1e-12)


def test_quantiles_are_of_all_that_is_not_left_out():
    values = (8.0, 5.0, 3.0, 2.0, 1.0, 0.0)
    found = compute_matrix_spectrum(matrix(*values), zeros=1).quantiles
    expected = np.percentile(values[:-1], (5, 25, 50, 75, 95))
    assert astuple(found) == pytest.approx(tuple(expected), rel=1e-12)


def test_effective_rank_counts_the_directions():
    assert compute_matrix_spectrum(matrix(2.0, 2.0, 2.0, 2.0)).effective_rank == pytest.approx(4.0)
    assert compute_matrix_spectrum(matrix(2.0, 2.0, 0.0, 0.0)).effective_rank == pytest.approx(
        2.0, rel=1e-6
    )
    shares = (3 / 4, 1 / 4)
    expected = math.exp(-sum(p * math.log(p) for p in shares))
    assert compute_matrix_spectrum(matrix(3.0, 1.0)).effective_rank == pytest.approx(
        expected, rel=1e-12
    )


def test_a_matrix_of_zeros():
    found = compute_matrix_spectrum(torch.zeros(3, 3))
    assert (found.sigma_max, found.sigma_min, found.effective_rank) == (0.0, 0.0, 0.0)
