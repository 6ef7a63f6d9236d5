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
    for step in range(steps):
        process.extend_basis()
        if process.is_complete or (step % 2 and process.is_within(tolerance)):
            break
    return process.singular_range(zeros)


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

    @property
    def is_complete(self) -> bool:
        """Whether the Krylov space is.

        A zero in either list says that A'A maps the space reached into itself; all different
        singular values are then among those of B, since a random vector has a part of each.
        """
        leads_on = min(self._alphas[-1], self._betas[-1]) > self._rounding_level
        return len(self._alphas) == self._operator.columns or not leads_on

    def is_within(self, tolerance: float) -> bool:
        """Whether the largest Ritz value is sigma_max to the relative `tolerance`."""
        ritz = self._ritz_values()
        sigma = float(ritz[0])
        beyond = tolerance * sigma - self._rounding_level
        excess = beyond * (2 * sigma + beyond)
        return beyond > 0 and self._log_polynomial(ritz.square(), excess) >= self._log_limit()

    def singular_range(self, zeros: int) -> SingularRange:
        """Compute the range from the steps so far."""
        ritz = self._ritz_values()
        beyond = 0.0 if self.is_complete else self._upper_excess(ritz.square())
        return SingularRange(
            sigma_max=float(ritz[0]),
            sigma_max_error=beyond + self._rounding_level,
            sigma_min=float(ritz[max(0, len(ritz) - 1 - zeros)]),
            is_exact=self.is_complete,
            steps=len(self._alphas),
        )

    def _ritz_values(self) -> Tensor:
        """Singular values of B, largest first."""
        alphas = torch.tensor(self._alphas, dtype=torch.float64)
        betas = torch.tensor(self._betas[:-1], dtype=torch.float64)
        values: Tensor = torch.linalg.svdvals(torch.diag(alphas) + torch.diag(betas, 1))
        return values

    @property
    def _rounding_level(self) -> float:
        """Magnitude below which a value is 0 up to rounding."""
        precision = torch.finfo(self._operator.dtype).eps
        return 4 * precision * math.sqrt(self._operator.columns) * max(*self._alphas, *self._betas)

    def _upper_excess(self, ritz: Tensor) -> float:
        """Bound on sigma_max minus the largest Ritz value, of which `ritz` are the squares.

        The vector that leads out of the space is p(A'A) v_1, with p the polynomial whose roots are
        the squared Ritz values, and has length 1. So |p(sigma_max^2)| is at most 1 / |f|, f the
        part of the random v_1 along the first singular vector; and |f| < d has probability
        d sqrt(2n / pi) at most (Hochstenbach 2013).
        """
        limit = self._log_limit()
        high = limit / len(ritz)
        low = high - 200
        for _ in range(60):
            middle = 0.5 * (low + high)
            if self._log_polynomial(ritz, math.exp(middle)) < limit:
                low = middle
            else:
                high = middle
        excess, sigma = math.exp(high), math.sqrt(float(ritz[0]))
        return excess / (math.sqrt(sigma**2 + excess) + sigma)

    def _log_limit(self) -> float:
        """What log |p(sigma_max^2)| exceeds with probability `RISK` at most."""
        products = sum(math.log(a * b) for a, b in zip(self._alphas, self._betas, strict=True))
        return 0.5 * math.log(2 * self._operator.columns / math.pi) - math.log(RISK) + products

    @staticmethod
    def _log_polynomial(ritz: Tensor, excess: float) -> float:
        """log |p| at the largest squared Ritz value and `excess`."""
        return float(np.log((ritz[0] - ritz).numpy() + excess).sum())


def _orthogonalise(vector: Tensor, basis: Tensor) -> Tensor:
    """Orthogonalise `vector` against the rows of `basis`, twice because of rounding."""
    vector = vector.detach()
    for _ in range(2):
        vector = vector - basis.T @ (basis @ vector)
    return vector
