"""Stochastic estimate of ||A||_F^2, the sum of the squared singular values.

E ||A v||^2 = ||A||_F^2 for v ~ N(0, I) (Hutchinson 1990), so ||A||_F^2 / n is the mean squared
singular value. One sample has the variance 2 sum s^4, so flat spectra need few samples.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from normdiag.numerics.operators import LinearOperator


@dataclass(frozen=True, slots=True)
class MonteCarloEstimate:
    """Mean of random samples."""

    value: float
    deviation: float
    """Standard deviation of `value`, from the spread of the samples."""
    samples: int


def estimate_frobenius_square(
    operator: LinearOperator, *, samples: int = 16, seed: int = 0
) -> MonteCarloEstimate:
    """Estimate ||A||_F^2 with one product A v per sample; at least 2 samples."""
    generator = torch.Generator().manual_seed(seed)
    squares = torch.empty(max(2, samples), dtype=torch.float64)
    for k in range(len(squares)):
        v = torch.randn(operator.columns, generator=generator).to(operator.device, operator.dtype)
        squares[k] = operator.matvec(v).to(torch.float64).square().sum()
    deviation = float(squares.std()) / math.sqrt(len(squares))
    return MonteCarloEstimate(float(squares.mean()), deviation, len(squares))
