"""The largest and smallest singular value of a linear operator from matrix-vector products.

Golub-Kahan-Lanczos bidiagonalisation (Golub and Kahan 1965) with every vector orthogonalised twice
against all earlier ones: after k steps A V = U B with B (k, k) upper bidiagonal. The singular
values of B lie inside the range of A's, so its largest is a lower bound of sigma_max and its
smallest an upper bound of sigma_min. sigma_max converges in about ten steps; sigma_min may need as
many steps as A has columns.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from normdiag.numerics.operators import LinearOperator

RISK = 1e-6
"""Probability over starting vectors that sigma_max exceeds its error bound."""


@dataclass(frozen=True, slots=True)
class SingularRange:
    """Range of the min(rows, columns) singular values of one operator."""

    sigma_max: float
    """A lower bound."""
    sigma_max_error: float
    """The true value exceeds `sigma_max` by more than this with probability `RISK` at most."""
    sigma_min: float
    """An upper bound."""
    is_exact: bool
    """Whether the Krylov space is complete, so that both are exact up to rounding."""
    steps: int


def find_singular_range(
    operator: LinearOperator,
    *,
    steps: int = 60,
    tolerance: float = 1e-3,
    seed: int = 0,
    zeros: int = 0,
) -> SingularRange:
    """Iterate until the relative error of sigma_max is below `tolerance`, or for `steps` steps.

    Args:
        operator: costs one product with A and one with A' per step.
        steps: at most this many, and at most min(rows, columns).
        tolerance: 0 takes all steps, to converge sigma_min.
        seed: of the random starting vector.
        zeros: number of the smallest singular values that sigma_min skips. The k-th smallest of
            B is never below the k-th smallest of A, so it stays an upper bound.
    """
    if operator.rows < operator.columns:  # its null space is not among the min(rows, columns)
        operator = operator.transpose
    process = _Bidiagonalisation(operator, min(steps, operator.columns), seed)
    while True:
        process.extend_basis()
        estimate = process.singular_range(zeros)
        is_known = estimate.sigma_max_error <= tolerance * estimate.sigma_max
        if estimate.is_exact or is_known or estimate.steps == steps:
            return estimate


class _Bidiagonalisation:
    """A V = U B and A' U = V B' + beta v e_k', grown by one step at a time."""

    def __init__(self, operator: LinearOperator, steps: int, seed: int) -> None:
        start = torch.randn(operator.columns, generator=torch.Generator().manual_seed(seed))
        self._operator = operator
        self._next = start.to(operator.device, operator.dtype)
        self._length = float(self._next.norm())
        self._right = self._next.new_empty(steps, operator.columns)
        self._left = self._next.new_empty(steps, operator.rows)
        self._alphas: list[float] = []
        self._betas: list[float] = []

    def extend_basis(self) -> None:
        """Take one step; invalid once the space is complete."""
        k = len(self._alphas)
        self._right[k] = self._next / self._length
        u = _orthogonalise(self._operator.matvec(self._right[k]), self._left[:k])
        self._alphas.append(float(u.norm()))
        self._betas.append(0.0)
        if self._alphas[k] > self._rounding_level:
            self._left[k] = u / self._alphas[k]
            image = self._operator.rmatvec(self._left[k])
            self._next = _orthogonalise(image, self._right[: k + 1])
            self._length = self._betas[k] = float(self._next.norm())

    def singular_range(self, zeros: int) -> SingularRange:
        """Compute the range from the steps so far."""
        alphas = torch.tensor(self._alphas, dtype=torch.float64)
        betas = torch.tensor(self._betas, dtype=torch.float64)
        ritz = torch.linalg.svdvals(torch.diag(alphas) + torch.diag(betas[:-1], 1))
        # A zero in either list says that A'A maps the space reached into itself; all different
        # singular values are then among those of B, since a random vector has a part of each.
        leads_on = min(self._alphas[-1], self._betas[-1]) > self._rounding_level
        is_exact = len(alphas) == self._operator.columns or not leads_on
        beyond = 0.0 if is_exact else self._upper_excess(ritz.square(), (alphas * betas).log())
        return SingularRange(
            sigma_max=float(ritz[0]),
            sigma_max_error=beyond + self._rounding_level,
            sigma_min=float(ritz[max(0, len(ritz) - 1 - zeros)]),
            is_exact=is_exact,
            steps=len(alphas),
        )

    @property
    def _rounding_level(self) -> float:
        """Magnitude below which a value is 0 up to rounding."""
        precision = torch.finfo(self._operator.dtype).eps
        return 4 * precision * math.sqrt(self._operator.columns) * max(*self._alphas, *self._betas)

    def _upper_excess(self, ritz: Tensor, log_off_diagonal: Tensor) -> float:
        """Bound on sigma_max minus the largest Ritz value (Hochstenbach 2013).

        The vector that leads out of the space is p(A'A) v_1, with p the polynomial whose roots are
        the squared Ritz values, and has length 1. So |p(sigma_max^2)| is at most 1 / |f|, f the
        part of the random v_1 along the first singular vector; and |f| < d has probability
        d sqrt(2n / pi) at most.
        """
        columns = self._operator.columns
        limit = 0.5 * math.log(2 * columns / math.pi) - math.log(RISK)
        limit += float(log_off_diagonal.sum())
        gaps = (ritz[0] - ritz).numpy()
        high = limit / len(ritz)
        low = high - 200
        for _ in range(60):
            middle = 0.5 * (low + high)
            if np.log(gaps + math.exp(middle)).sum() < limit:
                low = middle
            else:
                high = middle
        excess, sigma = math.exp(high), math.sqrt(float(ritz[0]))
        return excess / (math.sqrt(sigma**2 + excess) + sigma)


def _orthogonalise(vector: Tensor, basis: Tensor) -> Tensor:
    """Orthogonalise `vector` against the rows of `basis`, twice because of rounding."""
    vector = vector.detach()
    for _ in range(2):
        vector = vector - basis.T @ (basis @ vector)
    return vector
