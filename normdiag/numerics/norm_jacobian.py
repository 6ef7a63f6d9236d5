"""Exact singular values of the Jacobian of LayerNorm and RMSNorm, in O(H) per token.

For one token x with H features, gain gamma and epsilon eps:

    z = x - mean(x) (LayerNorm) or x (RMSNorm);  m2 = mean(z^2);  s = sqrt(m2 + eps)
    J = diag(gamma) / s (I - u u' - c zh zh')      u = 1/sqrt(H) (LayerNorm only), zh = z/||z||
    c = m2 / (m2 + eps),  1 - c = eps / s^2

so s^2 J J' is diag(gamma^2) minus a term of rank two (LayerNorm) or one (RMSNorm), and its
eigenvalues solve the equation of `secular_equation.py` with delta = (1-c)^2 / (c (2-c)). (Xiong et
al. 2020, appendix D, is the case gamma = 1, eps = 0.) What depends on gamma alone is solved once
per norm; a token then costs one scalar equation per singular value.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Literal

import torch
from torch import Tensor

from normdiag.errors import NormdiagError
from normdiag.numerics.gain_spectrum import GainSpectrum, compute_gain_spectrum
from normdiag.numerics.secular_equation import GRAIN
from normdiag.numerics.standardised_inputs import standardise_inputs

NormKind = Literal["layernorm", "rmsnorm"]
_BATCH = 16 * GRAIN
"""Elements of x whose scalar equations are solved together."""
_FREE = 2.0**60
"""A delta beyond which the token's term moves no eigenvalue by an ulp: variance << eps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SingularExtremes:
    """Extremes of the singular values s_1 >= .. >= s_H of each token's Jacobian, float64.

    NaN where a value does not exist (too few features), where x or gamma is not finite, and where
    the norm itself is 0/0 (no variance and no epsilon).
    """

    sigma_max: Tensor
    """s_1."""
    sigma_min: Tensor
    """s_(H-2) for LayerNorm, s_(H-1) for RMSNorm: excludes the directions that the norm removes."""
    kappa: Tensor
    """sigma_max / sigma_min; inf where sigma_min is 0."""
    live_kappa: Tensor
    """s_1 over the smallest value besides those that the norm and its D dead gains take away:
    s_(H-2-D) for LayerNorm, s_(H-1-D) for RMSNorm. NaN where none is left."""
    radial: Tensor
    """The next value below sigma_min; eps |gamma| / s^3 where |gamma| is constant."""
    rank: Tensor
    """Number of singular values that are not exactly 0."""
    frobenius: Tensor
    """sqrt(sum_k s_k^2)."""

    @staticmethod
    def concatenate_tokens(parts: Sequence[SingularExtremes]) -> SingularExtremes:
        """Concatenate the tokens of all parts, in order."""
        names = [f.name for f in fields(SingularExtremes)]
        return SingularExtremes(
            **{n: torch.cat([getattr(part, n) for part in parts]) for n in names}
        )


@dataclass(frozen=True, slots=True)
class NormSpectrum:
    """One norm, prepared to compute the extreme singular values of its Jacobian at any token."""

    eps: float
    gain: GainSpectrum

    def singular_extremes(self, x: Tensor) -> SingularExtremes:
        """Compute the extremes of the Jacobian at each token.

        Args:
            x: the norm's inputs, (N, H), of any floating dtype and on any device.

        Returns:
            One number per token, on the CPU. The error is below 1e-12 max|gamma| / s, and
            `radial` is accurate to 1e-12 of itself.

        Raises:
            NormdiagError: x does not have the norm's number of features.
        """
        features = self.gain.features
        if x.ndim != 2 or x.shape[1] != features:
            raise NormdiagError(
                f"a norm over {features} features got inputs of shape {tuple(x.shape)}",
                "give one row per token: (tokens, features)",
            )
        batch = max(1, _BATCH // features)
        return SingularExtremes.concatenate_tokens(
            [self._batch_extremes(part) for part in torch.split(x, batch)]
        )

    def _batch_extremes(self, x: Tensor) -> SingularExtremes:
        tokens = self._standardise_tokens(x)
        gain = self.gain
        extremes = (
            _extremes_for_constant_gain(gain, tokens)
            if gain.is_constant
            else _extremes_for_any_gain(gain, tokens)
        )
        factor = gain.largest / tokens.scale
        missing = torch.full_like(factor, math.nan)
        removed = 2 if gain.is_centred else 1
        exists = gain.features > removed
        sigma_max, sigma_min = extremes.sigma_max * factor, extremes.sigma_min * factor
        return SingularExtremes(
            sigma_max=sigma_max,
            sigma_min=sigma_min if exists else missing,
            kappa=_singular_ratio(extremes.sigma_max, extremes.sigma_min) + 0 * factor
            if exists
            else missing,
            live_kappa=extremes.sigma_max / extremes.live_min + 0 * factor if exists else missing,
            radial=extremes.radial * factor if gain.features >= removed else missing,
            rank=extremes.rank + 0 * factor,
            frobenius=tokens.energy.sqrt() * factor,
        )

    def _standardise_tokens(self, x: Tensor) -> _TokenTerms:
        gain = self.gain
        y = x.new_empty(len(x), gain.features - gain.zeros, dtype=torch.float64, device="cpu")
        parts = []
        rows = max(1, GRAIN // gain.features)
        for start in range(0, max(1, len(x)), rows):
            token = standardise_inputs(
                x[start : start + rows], centred=gain.is_centred, eps=self.eps
            )
            energy = (token.projected_energy() * gain.relative.square()).sum(1)
            direction = gain.reference_inputs(token.x) / token.length[:, None]
            weight = direction[:, : gain.zeros].square().sum(1)
            y[start : start + rows] = direction[:, gain.zeros :]
            parts.append((token.scale, token.eps_share, token.radial_suppression + weight, energy))
        scale, eps_share, delta, energy = (torch.cat(column) for column in zip(*parts, strict=True))
        return _TokenTerms(scale, eps_share, delta, energy, y)


@dataclass(frozen=True, slots=True)
class _TokenTerms:
    """Terms of the secular equation of N tokens, with the gain in units of its largest element."""

    scale: Tensor
    eps_share: Tensor
    delta: Tensor
    energy: Tensor
    """s^2 ||J||_F^2."""
    y: Tensor


@dataclass(frozen=True, slots=True)
class _ScaledExtremes:
    """Extremes in units of max|gamma| / s."""

    sigma_max: Tensor
    sigma_min: Tensor
    live_min: Tensor
    """NaN where no value is left."""
    radial: Tensor
    rank: Tensor


def prepare_norm_spectrum(
    gain: Tensor | None, *, kind: NormKind, features: int, eps: float
) -> NormSpectrum:
    """Solve the part that depends on the gain alone, once per norm.

    Args:
        gain: effective gamma (1 + w in some norms), (H,), or None for a norm without gain.
        kind: LayerNorm subtracts the mean, RMSNorm does not.
        features: H.
        eps: added to the mean square.

    Raises:
        NormdiagError: the gain does not have H numbers, or eps is negative or not finite.
    """
    if gain is None:
        gain = torch.ones(features)
    if gain.shape != (features,) or features < 1:
        raise NormdiagError(
            f"a norm over {features} features has a gain of shape {tuple(gain.shape)}",
            "give one gain per feature, expanded where features share one",
        )
    if not (math.isfinite(eps) and eps >= 0):
        raise NormdiagError(f"a norm's epsilon is {eps}", "epsilon is a finite number, 0 or more")
    return NormSpectrum(eps, compute_gain_spectrum(gain, centred=kind == "layernorm"))


def _extremes_for_constant_gain(gain: GainSpectrum, tokens: _TokenTerms) -> _ScaledExtremes:
    """Closed form: 1 on every kept direction, 1-c on the radial one, 0 on the mean."""
    one = torch.ones_like(tokens.scale)
    radial = tokens.eps_share if gain.root_count else torch.zeros_like(one)
    rank = gain.root_count - (radial == 0).to(radial.dtype) if gain.root_count else radial
    return _ScaledExtremes(one if gain.root_count > 1 else radial, one, one, radial, rank)


def _extremes_for_any_gain(gain: GainSpectrum, tokens: _TokenTerms) -> _ScaledExtremes:
    """Roots of the secular equation; those with k < 1 are exact zeros."""
    delta = tokens.delta
    free = ~(delta < _FREE)
    roots = gain.find_roots(tokens.y, torch.where(free, 1.0, delta))
    zero = torch.zeros_like(delta)

    def singular_value(k: int) -> Tensor:
        if k not in gain.intervals:
            return zero
        return torch.where(free, gain.intervals[k].high.value, roots[k]).sqrt()

    rank = gain.root_count - (delta == 0).to(delta.dtype) if gain.root_count else zero
    live = gain.smallest_live_index
    return _ScaledExtremes(
        singular_value(gain.root_count),
        singular_value(gain.smallest_index),
        singular_value(live) if live <= gain.root_count else zero * math.nan,
        singular_value(gain.radial_index),
        rank,
    )


def _singular_ratio(largest: Tensor, smallest: Tensor) -> Tensor:
    """Return largest / smallest; inf where smallest is 0."""
    return torch.where(smallest == 0, math.inf, largest / smallest)
