"""Summary of the singular values s_1 >= .. >= s_n of a square matrix."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from normdiag.evidence.statistics import Quantiles
from normdiag.numerics.host_algebra import find_eigenvalues, multiply_matrices

_SQUARED = 1e-4
"""Ratio to the largest singular value at which squaring keeps 8 of 16 digits."""


@dataclass(frozen=True, slots=True)
class MatrixSpectrum:
    """Singular-value summary of one matrix."""

    sigma_max: float
    sigma_min: float
    """The smallest that is not skipped."""
    mean_square: float
    """||A||_F^2 / n, over all n."""
    effective_rank: float
    """exp of the entropy of s / sum s, over all (Roy and Vetterli 2007)."""
    quantiles: Quantiles
    """Of those that are not skipped."""


def compute_matrix_spectrum(matrix: Tensor, zeros: int = 0) -> MatrixSpectrum:
    """Compute the spectrum of a finite square matrix by a dense decomposition in float64.

    sigma_min skips the `zeros` smallest singular values.
    """
    values = _singular_values(matrix.double(), zeros)
    nonzero = values[: max(1, len(values) - zeros)]
    shares = values / values.sum()
    entropy = float(torch.special.entr(shares).sum())
    return MatrixSpectrum(
        sigma_max=float(values[0]),
        sigma_min=float(nonzero[-1]),
        mean_square=float(values.square().mean()),
        effective_rank=math.exp(entropy) if entropy == entropy else 0.0,
        quantiles=_compute_quantiles(nonzero),
    )


def _compute_quantiles(values: Tensor) -> Quantiles:
    shares = values.new_tensor([0.05, 0.25, 0.5, 0.75, 0.95])
    p5, p25, p50, p75, p95 = values.quantile(shares).tolist()
    return Quantiles(p5=p5, p25=p25, p50=p50, p75=p75, p95=p95)


def _singular_values(matrix: Tensor, zeros: int) -> Tensor:
    """Singular values, largest first; from A'A at half the cost unless that loses digits."""
    values = find_eigenvalues(multiply_matrices(matrix.T, matrix)).flip(0).clamp(min=0).sqrt()
    if values[max(0, len(values) - 1 - zeros)] > _SQUARED * values[0]:
        return values
    exact: Tensor = torch.linalg.svdvals(matrix)
    return exact
