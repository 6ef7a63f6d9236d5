"""Summary of the singular values s_1 >= .. >= s_n of a square matrix."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from normdiag.numerics.operators import LinearOperator, matrix_operator
from normdiag.numerics.singular_values import find_singular_range

_SQUARED = 1e-4
"""Ratio to the largest singular value at which squaring keeps 8 of 16 digits."""

_STEPS, _TOLERANCE = 60, 1e-6
"""Of the iterations for the ends alone."""
_INVERTIBLE = 1e10
"""A condition number up to which solving keeps 6 digits of the smallest singular value."""


@dataclass(frozen=True, slots=True)
class MatrixSpectrum:
    """Singular-value summary of one matrix."""

    sigma_max: float
    sigma_min: float
    """The smallest that is not skipped."""
    mean_square: float
    """||A||_F^2 / n, over all n."""
    effective_rank: float | None
    """exp of the entropy of s / sum s, over all (Roy and Vetterli 2007); None: not computed."""


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
    )


def compute_spectrum_ends(matrix: Tensor) -> MatrixSpectrum | None:
    """The largest and smallest singular value of a finite square matrix, without the others.

    By Lanczos steps on the matrix and on its inverse, of which one LU factorisation gives
    products. None where it is too near to singular, or a step limit is met.
    """
    matrix = matrix.double()
    largest = find_singular_range(matrix_operator(matrix), steps=_STEPS, tolerance=_TOLERANCE)
    factors, pivots, info = torch.linalg.lu_factor_ex(matrix)
    if int(info) or largest.sigma_max_error > _TOLERANCE * largest.sigma_max:
        return None

    def solve(v: Tensor, *, adjoint: bool) -> Tensor:
        solved: Tensor = torch.linalg.lu_solve(factors, pivots, v[:, None], adjoint=adjoint)
        return solved[:, 0]

    inverse = LinearOperator(
        len(matrix),
        len(matrix),
        lambda v: solve(v, adjoint=False),
        lambda w: solve(w, adjoint=True),
        matrix.dtype,
        matrix.device,
    )
    ends = find_singular_range(inverse, steps=_STEPS, tolerance=_TOLERANCE)
    top = largest.sigma_max
    if not math.isfinite(ends.sigma_max) or ends.sigma_max * top > _INVERTIBLE:
        return None
    if ends.sigma_max_error > _TOLERANCE * ends.sigma_max:
        return None
    return MatrixSpectrum(
        sigma_max=top,
        sigma_min=1.0 / ends.sigma_max,
        mean_square=float(matrix.square().sum()) / len(matrix),
        effective_rank=None,
    )


def _singular_values(matrix: Tensor, zeros: int) -> Tensor:
    """Singular values, largest first; from A'A at half the cost unless that loses digits."""
    squares: Tensor = torch.linalg.eigvalsh(matrix.T @ matrix).flip(0).clamp(min=0)
    values = squares.sqrt()
    if values[max(0, len(values) - 1 - zeros)] > _SQUARED * values[0]:
        return values
    exact: Tensor = torch.linalg.svdvals(matrix)
    return exact
