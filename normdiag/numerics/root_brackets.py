"""Roots of many increasing functions between two poles each: rational steps within brackets."""

from __future__ import annotations

from dataclasses import dataclass, fields

import torch
from torch import Tensor

_CLOSE = 1e-8
"""Convergence is quadratic: after a relative step this small the error is below rounding."""
_ULP = 2.0**-54


@dataclass(slots=True)
class RootBrackets:
    """Unsolved rows, with all lengths measured from `origin`, one end of the interval.

    A root that nearly coincides with a pole so keeps its distance from it to full precision.
    """

    row: Tensor
    origin: Tensor
    low: Tensor
    high: Tensor
    tau: Tensor
    """lam - origin at the next evaluation of F."""
    lower: Tensor
    """F < 0 here."""
    upper: Tensor
    """F >= 0 here."""
    first: Tensor
    """Whether F has a pole at the high end only."""
    last: Tensor
    """Whether `exact` belongs to the high end."""
    exact: Tensor
    """The exact weight of the pole at one end."""
    converged: Tensor

    @classmethod
    def from_intervals(
        cls,
        *,
        origin: Tensor,
        width: Tensor,
        tau: Tensor,
        first: Tensor,
        last: Tensor,
        exact: Tensor,
    ) -> RootBrackets:
        """Create brackets of whole intervals, measured from their low ends."""
        zero = torch.zeros_like(width)
        return cls(
            row=torch.arange(len(width)),
            origin=origin,
            low=zero,
            high=width,
            tau=tau,
            lower=zero,
            upper=width,
            first=first,
            last=last,
            exact=exact,
            converged=torch.zeros_like(first),
        )

    def measure_from_nearer(self, upper_half: Tensor, high: Tensor) -> None:
        """Move the origin to `high`, the value at the high end, where the root is nearer to it."""
        shift = torch.where(upper_half, self.high, 0.0)
        self.origin = torch.where(upper_half, high, self.origin)
        for name in ("low", "high", "tau", "lower", "upper"):
            setattr(self, name, getattr(self, name) - shift)

    def advance_step(self, f: Tensor, slope: Tensor) -> None:
        """Take one safeguarded step of the fixed-weight iteration (Li 1993, LAPACK note 89).

        F is replaced by c + A / (low - lam) + B / (high - lam) with one exact weight; the other
        and c match F and its slope. A step that leaves the bracket is replaced by bisection.
        """
        self.lower = torch.where(f < 0, self.tau, self.lower)
        self.upper = torch.where(f < 0, self.upper, self.tau)
        a, b = self.low - self.tau, self.high - self.tau
        near, far = torch.where(self.last, b, a), torch.where(self.last, a, b)
        correction = self.exact * ((self.high - self.low) / near) / near
        c = f - far * slope + torch.where(self.last, -correction, correction)
        linear, product = (a + b) * f - a * b * slope, a * b * f
        root = (linear.square() - 4 * product * c).clamp_min(0).sqrt()
        change = torch.where(linear <= 0, (linear - root) / (2 * c), 2 * product / (linear + root))
        change = torch.where(self.first, b * f / c, change)
        self._move_within_bracket(change, f == 0)

    def _move_within_bracket(self, change: Tensor, hit: Tensor) -> None:
        lam = self.origin + self.tau
        end = torch.minimum(self.tau - self.low, self.high - self.tau)
        reached = change.abs() <= torch.maximum(_CLOSE * end, _ULP * lam)
        reached |= hit | (self.upper - self.lower <= _ULP * lam)
        moved = self.tau + change.nan_to_num(0.0)
        inside = (moved > self.lower) & (moved < self.upper)
        clamped = torch.minimum(torch.maximum(moved, self.lower), self.upper)
        moved = torch.where(reached, clamped, torch.where(inside, moved, self._bracket_midpoint()))
        self.tau = torch.where(self.converged, self.tau, moved)
        self.converged = self.converged | reached

    def _bracket_midpoint(self) -> Tensor:
        """Midpoint of the bracket, geometric while its ends differ by a large factor."""
        mirrored = self.low < 0
        near = torch.where(mirrored, -self.upper, self.lower)
        far = torch.where(mirrored, -self.lower, self.upper)
        geometric = (torch.maximum(near, 1e-6 * far) * far).sqrt()
        middle = torch.where(4 * near < far, geometric, 0.5 * (near + far))
        return torch.where(mirrored, -middle, middle)

    def select_unconverged(self) -> RootBrackets:
        """Return the rows that have not converged."""
        rows = (~self.converged).nonzero().flatten()
        values = {f.name: getattr(self, f.name).index_select(0, rows) for f in fields(self)}
        return RootBrackets(**values)
