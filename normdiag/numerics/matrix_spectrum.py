"""What the singular values s_1 >= .. >= s_n of a square matrix say, some zeros left out."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

_SQUARED = 1e-4
"""A singular value this small, relative to the largest, keeps 8 digits of 16 when squared."""


@dataclass(frozen=True, slots=True)
class MatrixSpectrum:
    """The numbers of one matrix."""

    sigma_max: float
    sigma_min: float
    """The smallest that is not left out."""
    mean_square: float
    """||A||_F^2 / n, over all n."""
    effective_rank: float
    """exp of the entropy of s / sum s, over all (Roy and Vetterli 2007)."""


def compute_matrix_spectrum(matrix: Tensor, zeros: int = 0) -> MatrixSpectrum:
    """Of a finite square matrix, by a dense decomposition in float64.

    The `zeros` smallest singular values are left out of sigma_min.
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
    )


def _singular_values(matrix: Tensor, zeros: int) -> Tensor:
    """Largest first. From A'A, at half the cost, unless squaring took digits of the small ones."""
    squares: Tensor = torch.linalg.eigvalsh(matrix.T @ matrix).flip(0).clamp(min=0)
    values = squares.sqrt()
    if values[max(0, len(values) - 1 - zeros)] > _SQUARED * values[0]:
        return values
    exact: Tensor = torch.linalg.svdvals(matrix)
    return exact
