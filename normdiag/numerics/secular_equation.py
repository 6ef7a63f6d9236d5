"""Selected eigenvalues of diag(p) minus a rank-one or rank-two term, for many terms at once.

The Jacobian of a norm is a diagonal matrix minus a projection, so its squared singular values are
roots of a scalar *secular equation* that costs O(n) to evaluate (Golub 1973; Bunch, Nielsen and
Sorensen 1978). With 0 < p_1 <= .. <= p_n and one row of numbers y per token:

    F(lam) = lam sum_i (y_i - t)^2 / (p_i - lam)  -  zeros t^2  -  delta
    t = 0                                                                 rank one (RMSNorm)
    t = sum_i y_i / (p_i - lam) / (sum_i 1 / (p_i - lam) - zeros / lam)   rank two (LayerNorm)

`zeros` counts further diagonal elements that are exactly 0; their weight is part of `delta`.
Between two neighbouring poles F increases, from -inf to +inf unless a pole carries no weight.
The sum of squares keeps the rank-two form exact near lam = p_i, where F has no pole but the
textbook difference K_zz - K_uz^2 / K_uu cancels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from normdiag.numerics.root_brackets import RootBrackets

GRAIN = 32768
"""Temporaries stay below torch's parallel grain: they fit into the cache and start no threads.
(`index_select` and `index_copy_` for the same reason: indexing with a tensor always does.)"""
_MAX_STEPS = 150
_NUDGE = 1.0 - 2.0**-20
_MIDDLE = 0.49
"""Not 0.5, so that evenly spaced gains do not put the first guess on a removable singularity."""


@dataclass(frozen=True, slots=True)
class Pole:
    """A pole q of F; `offsets` = p_i - q, (n,), are accurate relative to themselves."""

    value: float
    offsets: Tensor

    def shift_by(self, by: float) -> Pole:
        """Return the point q + by; offsets stay accurate while q is the closest p_i."""
        return Pole(self.value + by, self.offsets - by)


@dataclass(frozen=True, slots=True)
class Interval:
    """Two neighbouring poles around one root; `low` of the first interval is 0, not a pole."""

    low: Pole
    high: Pole
    is_first: bool
    is_last: bool

    @property
    def width(self) -> float:
        """high - low, computed through the nearest p_i, since the two values may nearly cancel."""
        low, high = self.low.offsets, self.high.offsets
        nearest = int((low.abs() + high.abs()).argmin())
        return float(low[nearest] - high[nearest])


@dataclass(frozen=True, slots=True)
class Roots:
    """Roots relative to the nearer end of their interval: lam = origin + distance, (I, N)."""

    from_high: Tensor
    origin: Tensor
    distance: Tensor

    @property
    def value(self) -> Tensor:
        """The roots lam, (I, N)."""
        return self.origin + self.distance


@dataclass(frozen=True, slots=True)
class SecularEquation:
    """F for N tokens, to be solved in I intervals: rows are (interval, token), interval-major."""

    is_centred: bool
    zeros: int
    y: Tensor
    """(N, n), float64."""
    delta: Tensor
    """(N,), finite, 0 or more."""

    def find_roots(self, intervals: Sequence[Interval]) -> Roots:
        """Find the root in each interval, none of width 0, for each token, (I, N).

        The error is a few ulp of the distance from the nearer end of the interval.
        """
        brackets, ends = self._guess_roots(intervals)
        shape = (len(intervals), len(self.y))
        origin, from_high = brackets.origin.view(shape), (brackets.low < 0).view(shape)
        distance = brackets.tau.clone()
        for _ in range(_MAX_STEPS):
            if 2 * int(brackets.converged.sum()) >= len(brackets.converged):
                brackets = brackets.select_unconverged()
            if len(brackets.row) == 0:
                break
            brackets.advance_step(*self._evaluate_function(brackets, ends))
            distance.index_copy_(0, brackets.row, brackets.tau)
        return Roots(from_high, origin, distance.view(shape))

    def pole_residue(self, pole: Pole) -> Tensor:
        """Weight (N,) of 1 / (pole - lam) in the partial fractions of F / lam."""
        members = (pole.offsets == 0).nonzero().flatten()
        if len(members):
            parts = [part.index_select(1, members) for part in self._token_chunks()]
            if self.is_centred:
                parts = [part - part.mean(1, keepdim=True) for part in parts]
            return torch.cat([part.square().sum(1) for part in parts])
        scale = pole.offsets.abs().min()
        direction = scale / pole.offsets
        square = direction.square().sum()
        if self.zeros:
            square = square + self.zeros * (scale / pole.value) ** 2
        return (
            torch.cat([(part * direction).sum(1) for part in self._token_chunks()]).square()
            / square
        )

    def _token_chunks(self) -> tuple[Tensor, ...]:
        return torch.split(self.y, max(1, GRAIN // self.y.shape[1]))

    def _guess_roots(self, intervals: Sequence[Interval]) -> tuple[RootBrackets, Tensor]:
        """Choose the half interval of each root, and a first guess from the midpoint."""
        tokens = len(self.y)

        def repeat_per_token(values: Sequence[float]) -> Tensor:
            return self.y.new_tensor(values).repeat_interleave(tokens)

        width = repeat_per_token([i.width for i in intervals])
        rows = RootBrackets.from_intervals(
            origin=repeat_per_token([i.low.value for i in intervals]),
            width=width,
            tau=_MIDDLE * width,
            first=repeat_per_token([i.is_first for i in intervals]) > 0,
            last=repeat_per_token([i.is_last and not i.is_first for i in intervals]) > 0,
            exact=torch.cat([self._exact_weight(i) for i in intervals]),
        )
        ends = torch.stack([end.offsets for i in intervals for end in (i.low, i.high)])
        f, slope = self._evaluate_function(rows, ends)
        rows.measure_from_nearer(f < 0, repeat_per_token([i.high.value for i in intervals]))
        middle = rows.tau
        rows.advance_step(f, slope)
        # S = (F + delta) / lam at most doubles from 0 to the middle of the first interval, so this
        # is within a factor 2 of the root, however many decades below the pole the root is.
        delta = self.delta.repeat(len(intervals))
        near_zero = rows.first & (f >= 0)
        rows.tau = torch.where(near_zero, middle * delta / (f + delta), rows.tau)
        rows.converged &= ~near_zero
        return rows, ends

    def _exact_weight(self, interval: Interval) -> Tensor:
        """pole * residue of the only pole on its side of the root."""
        if interval.is_first:
            return torch.zeros_like(self.delta)
        end = interval.high if interval.is_last else interval.low
        return end.value * self.pole_residue(end)

    def _evaluate_function(self, rows: RootBrackets, ends: Tensor) -> tuple[Tensor, Tensor]:
        """Evaluate F and dF/dlam, (R,), away from removable singularities (inf - inf)."""
        f, slope = self._evaluate_sums(rows, ends)
        for _ in range(3):
            finite = f.isfinite() & slope.isfinite()
            if finite.all():
                break
            rows.tau = torch.where(finite, rows.tau, rows.tau * _NUDGE)
            f, slope = self._evaluate_sums(rows, ends)
        return f, slope

    def _evaluate_sums(self, rows: RootBrackets, ends: Tensor) -> tuple[Tensor, Tensor]:
        token, lam = rows.row % len(self.y), rows.origin + rows.tau
        end = 2 * (rows.row // len(self.y)) + (rows.low < 0)
        delta = self.delta.index_select(0, token)
        f, slope = torch.empty_like(lam), torch.empty_like(lam)
        size = max(1, GRAIN // self.y.shape[1])
        for start in range(0, len(lam), size):
            at = slice(start, start + size)
            part = lam[at]
            inverse = ends.index_select(0, end[at]).sub_(rows.tau[at, None]).reciprocal_()
            residual, constant = self.y.index_select(0, token[at]), delta[at]
            if self.is_centred:
                share = inverse.sum(1)
                if self.zeros:
                    share = share - self.zeros / part
                t = torch.linalg.vecdot(residual, inverse) / share
                residual, constant = residual.sub_(t[:, None]), constant + self.zeros * t.square()
            weighted = inverse.mul_(residual)
            total = torch.linalg.vecdot(residual, weighted)
            f[at] = part * total - constant
            slope[at] = total + part * torch.linalg.vecdot(weighted, weighted)
        return f, slope
