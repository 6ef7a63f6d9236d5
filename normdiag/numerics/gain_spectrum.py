"""Intervals of a norm Jacobian's singular values that follow from the gain alone.

Over `largest`^2, the eigenvalues of s^2 J J' for a gain with `zeros` zeros are H - n zeros and
roots r_1 <= .. <= r_n, one in each [q_(k-1), q_k] with q_0 = 0. Without centring q_k are the
squares p_k of the nonzero gains. Centring subtracts a rank-one term that is the same for every
token; q_k are then the roots of lam sum_i 1 / (p_i - lam) = zeros.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from normdiag.numerics.secular_equation import Interval, Pole, SecularEquation

_ZERO = 1e-60
"""Gains below this share of the largest count as zero: their squares would underflow."""

DEAD = 2.0**-23
"""Gains below this share of the largest are lost beside it in float32."""


@dataclass(frozen=True, slots=True)
class GainSpectrum:
    """The poles of every token's secular equation that the extreme roots need."""

    is_centred: bool
    features: int
    largest: float
    """max |gamma|; NaN if one is not finite."""
    zeros: int
    relative: Tensor
    """|gamma| / `largest`, (H,), in the order of the features; 0 for the zeros."""
    order: Tensor
    """Features in ascending order of |gamma|, (H,)."""
    intervals: dict[int, Interval]
    """k -> [q_(k-1), q_k] for k = radial, smallest, smallest live and n, where 1 <= k <= n."""

    @property
    def root_count(self) -> int:
        """n, the number of roots besides the exact zeros."""
        return self.features - (max(1, self.zeros) if self.is_centred else self.zeros)

    @property
    def radial_index(self) -> int:
        """Index k of the radial value; 0 and below are exact zeros."""
        return (2 if self.is_centred else 1) - (self.features - self.root_count)

    @property
    def smallest_index(self) -> int:
        """Index k of the smallest non-radial value."""
        return self.radial_index + 1

    @property
    def smallest_live_index(self) -> int:
        """Index k of the smallest value besides those that dead gains take, one each."""
        return self.smallest_index + int((self.relative <= DEAD).sum())

    @property
    def is_constant(self) -> bool:
        """Whether |gamma| is equal for all features and not zero."""
        return self.zeros == 0 and bool((self.relative == 1).all())

    def find_roots(self, y: Tensor, delta: Tensor) -> dict[int, Tensor]:
        """Compute r_k, (N,), for each k of `intervals`.

        Args:
            y: `reference(x)` over ||z||, without the zero gains, (N, H - zeros).
            delta: the token's delta and the weight that its zero gains hold, (N,), finite.
        """
        open_intervals = {k: i for k, i in self.intervals.items() if i.width > 0}
        roots = {
            k: torch.full_like(delta, i.high.value)
            for k, i in self.intervals.items()
            if k not in open_intervals
        }
        if open_intervals:
            solved = SecularEquation(self.is_centred, self.zeros, y, delta).find_roots(
                list(open_intervals.values())
            )
            roots |= dict(zip(open_intervals, solved.value, strict=True))
        return roots

    def reference_inputs(self, x: Tensor) -> Tensor:
        """Return x (N, H) in ascending order of |gamma|, shifted so that small gains do not cancel.

        LayerNorm is invariant to a constant added to x. That constant is the feature of the
        smallest gain, or the mean over the zero gains.
        """
        x = x.index_select(1, self.order)
        if self.is_centred:
            x = x - x[:, :1]
            if self.zeros:
                x = x - x[:, : self.zeros].mean(1, keepdim=True)
        return x


def compute_gain_spectrum(gain: Tensor, *, centred: bool) -> GainSpectrum:
    """Compute the spectrum of a gain (H,) of any floating dtype and device; signs are ignored."""
    size = gain.detach().to("cpu").to(torch.float64).abs()
    largest = float(size.amax())
    if not math.isfinite(largest):
        return GainSpectrum(centred, len(size), math.nan, 0, size, size.argsort(), {})
    relative = size / largest if largest > 0 else size
    relative = torch.where(relative < _ZERO, 0.0, relative)
    gains, order = relative.sort()
    zeros = int((gains == 0).sum())
    spectrum = GainSpectrum(centred, len(size), largest, zeros, relative, order, {})
    roots = {
        k
        for k in (
            spectrum.radial_index,
            spectrum.smallest_index,
            spectrum.smallest_live_index,
            spectrum.root_count,
        )
        if 1 <= k <= spectrum.root_count
    }
    poles = _find_poles(spectrum, gains[zeros:], roots | {k - 1 for k in roots})
    intervals = {
        k: Interval(poles[k - 1], poles[k], k == 1, k == spectrum.root_count) for k in roots
    }
    return replace(spectrum, intervals=intervals)


def _find_poles(spectrum: GainSpectrum, gains: Tensor, wanted: set[int]) -> dict[int, Pole]:
    """Compute q_k for each wanted k; q_0 = 0."""

    def squared_gain(i: int) -> Pole:
        gain = gains[i - 1] if i else gains.new_zeros(())
        return Pole(float(gain.square()), (gains - gain) * (gains + gain))

    if not spectrum.is_centred:
        return {k: squared_gain(k) for k in wanted}
    skipped = 0 if spectrum.zeros else 1  # without zero gains, the first root of the centring is 0
    poles = {0: squared_gain(0)} if 0 in wanted else {}
    open_intervals = {}
    for k in wanted - {0}:
        i = k + skipped
        interval = Interval(squared_gain(i - 1), squared_gain(i), i == 1, i == len(gains))
        if interval.width == 0:
            poles[k] = interval.high
        else:
            open_intervals[k] = interval
    if open_intervals:
        centring = SecularEquation(
            is_centred=False,
            zeros=0,
            y=torch.ones(1, len(gains), dtype=torch.float64),
            delta=torch.full((1,), float(spectrum.zeros), dtype=torch.float64),
        )
        root = centring.find_roots(list(open_intervals.values()))
        for row, (k, interval) in enumerate(open_intervals.items()):
            end = interval.high if root.from_high[row, 0] else interval.low
            poles[k] = end.shift_by(float(root.distance[row, 0]))
    return poles
