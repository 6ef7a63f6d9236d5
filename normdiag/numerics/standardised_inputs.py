"""Standardised norm inputs and the share of epsilon, without overflow or cancellation."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

_TINY = 1e-290


@dataclass(frozen=True, slots=True)
class StandardisedInputs:
    """N tokens of H features, float64 on the CPU; undefined tokens are NaN in `scale`.

    With z = x - mean(x) (centred) or x, and m2 = mean(z^2).
    """

    is_centred: bool
    x: Tensor
    """x over a power of two, (N, H), which keeps differences between features exact."""
    length: Tensor
    """||z|| over the same power of two, (N,); 1 where z is 0."""
    unit: Tensor
    """z / ||z||, (N, H); 0 where z is 0."""
    scale: Tensor
    """s = sqrt(m2 + eps), (N,); NaN where x is not finite, or where m2 and eps are both 0."""
    signal_share: Tensor
    """c = m2 / s^2."""
    eps_share: Tensor
    """1 - c, computed as eps / s^2."""

    @property
    def radial_suppression(self) -> Tensor:
        """delta = (1-c)^2 / (c (2-c)); 0 where the radial direction is removed completely."""
        return self.eps_share.square() / (self.signal_share * (1 + self.eps_share))

    def projected_energy(self) -> Tensor:
        """||(I - u u' - (1 - (1-c)^2) zh zh') e_i||^2 for every feature i, (N, H).

        = 1 - 1/H - zh_i^2 + (1-c)^2 zh_i^2, where the first three terms cancel for the one feature
        that can hold nearly all of zh; there they are summed over the other features instead.
        """
        features = self.unit.shape[1]
        energy = self.unit.square()
        rest = (1 - energy) - (1 / features if self.is_centred else 0.0)
        has_signal = energy.sum(1, keepdim=True) > 0
        if features <= (2 if self.is_centred else 1):
            rest = torch.where(has_signal, 0.0, rest)
        else:
            peak = energy.argmax(1, keepdim=True)
            rest = torch.where(has_signal, rest.scatter(1, peak, self._residual_energy(peak)), rest)
        return rest.clamp_min(0) + self.eps_share.square()[:, None] * energy

    def _residual_energy(self, peak: Tensor) -> Tensor:
        """1 - zh_i^2 (minus 1/H for LayerNorm) at feature `peak` (N, 1), as a sum of squares."""
        if not self.is_centred:
            return _square_sum(self.unit.scatter(1, peak, 0.0))
        features = self.x.shape[1]
        another = self.x.gather(1, (peak + 1) % features)
        others = ((self.x - another) / self.length[:, None]).scatter(1, peak, 0.0)
        mean = others.sum(1, keepdim=True) / (features - 1)
        return _square_sum((others - mean).scatter(1, peak, 0.0)) * (1 - 1 / features)


def standardise_inputs(x: Tensor, *, centred: bool, eps: float) -> StandardisedInputs:
    """Standardise each row of x (N, H), of any floating dtype and on any device."""
    x = x.detach().to("cpu").to(torch.float64)
    finite = x.isfinite().all(1)
    x = torch.where(finite[:, None], x, 0.0)
    largest = x.abs().amax(1).clamp_min(_TINY)
    power = torch.frexp(largest).mantissa / largest
    x = x * power[:, None]
    z = x
    if centred:
        # The difference from one of the features is exact where all are alike: a constant input
        # has variance 0 and not rounding noise.
        z = x - x[:, :1]
        z = z - z.mean(1, keepdim=True)
    length = _square_sum(z).sqrt().squeeze(1)
    rms = length / math.sqrt(x.shape[1]) / power
    scale = torch.hypot(rms, torch.full_like(rms, math.sqrt(eps)))
    scale = torch.where(finite & (scale > 0), scale, torch.nan)
    length = torch.where(length > 0, length, 1.0)
    return StandardisedInputs(
        is_centred=centred,
        x=x,
        length=length,
        unit=z / length[:, None],
        scale=scale,
        signal_share=(rms / scale).square(),
        eps_share=(math.sqrt(eps) / scale).square(),
    )


def _square_sum(rows: Tensor) -> Tensor:
    return rows.square().sum(1, keepdim=True)
