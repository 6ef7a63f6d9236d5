"""The largest singular values of one norm's Jacobian over all tokens, and the smallest."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch

from normdiag.numerics.norm_jacobian import SingularExtremes


@dataclass(slots=True)
class JacobianExtremes:
    """Accumulator. NaN is what no token has: too few features, an input that is not finite."""

    tokens: int = 0
    sigma_max: float = math.nan
    sigma_min: float = math.nan
    """The smallest; all others are the largest."""
    kappa: float = math.nan
    live_kappa: float = math.nan
    radial: float = math.nan

    def update(self, tokens: SingularExtremes) -> None:
        """Add the singular values of some tokens."""
        self.merge(
            JacobianExtremes(
                tokens=tokens.sigma_max.numel(),
                sigma_max=_find_largest(tokens.sigma_max),
                sigma_min=-_find_largest(-tokens.sigma_min),
                kappa=_find_largest(tokens.kappa),
                live_kappa=_find_largest(tokens.live_kappa),
                radial=_find_largest(tokens.radial),
            )
        )

    def merge(self, other: JacobianExtremes) -> None:
        """Add the tokens of `other`."""
        self.tokens += other.tokens
        self.sigma_max = float(np.fmax(self.sigma_max, other.sigma_max))
        self.sigma_min = float(np.fmin(self.sigma_min, other.sigma_min))
        self.kappa = float(np.fmax(self.kappa, other.kappa))
        self.live_kappa = float(np.fmax(self.live_kappa, other.live_kappa))
        self.radial = float(np.fmax(self.radial, other.radial))

    def compute(self) -> JacobianExtremes:
        """All of it."""
        return self


def _find_largest(values: torch.Tensor) -> float:
    present = values[~values.isnan()]
    return float(present.max()) if present.numel() else math.nan
