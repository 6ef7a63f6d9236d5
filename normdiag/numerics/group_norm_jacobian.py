"""Singular values of the Jacobian of GroupNorm: those of LayerNorm, group by group.

A group of C/G channels over P positions is normalised as one LayerNorm of H = C/G * P features
whose gain is each channel's, repeated over the positions (Wu and He 2018).
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import torch
from torch import Tensor

from normdiag.errors import NormdiagError
from normdiag.numerics.norm_jacobian import NormSpectrum, SingularExtremes, prepare_norm_spectrum


@dataclass(frozen=True, slots=True)
class GroupSpectrum:
    """One GroupNorm at one number of positions."""

    groups: int
    uniform_groups: Tensor
    """Indices of the groups of constant |gamma|, which share one spectrum, (A,)."""
    level: Tensor
    """|gamma| of those groups, (A,)."""
    unit_norm: NormSpectrum
    """Spectrum of a group with gain 1."""
    other_norms: dict[int, NormSpectrum]

    def singular_extremes(self, x: Tensor) -> SingularExtremes:
        """Compute the extremes of each group's Jacobian: fields of shape (N, G).

        Args:
            x: inputs of GroupNorm, (N, C, positions ..), or (N, G, features).

        Raises:
            NormdiagError: x does not split into G groups of the prepared size.
        """
        features = self.unit_norm.gain.features
        if x.ndim < 2 or x[:1].numel() != self.groups * features * len(x[:1]):
            raise NormdiagError(
                f"a group norm of {self.groups} groups with {features} features each "
                f"got inputs of shape {tuple(x.shape)}",
                "prepare it for the number of positions that the inputs have",
            )
        group = torch.arange(self.groups).repeat(len(x))
        extremes = self.row_extremes(x.reshape(len(x) * self.groups, features), group)

        def reshape_field(name: str) -> Tensor:
            values: Tensor = getattr(extremes, name)
            return values.view(len(x), self.groups)

        return SingularExtremes(
            **{field.name: reshape_field(field.name) for field in fields(SingularExtremes)}
        )

    def row_extremes(self, rows: Tensor, group: Tensor) -> SingularExtremes:
        """Compute the extremes of single groups: rows (R, features) with group indices (R,)."""
        levels = torch.zeros(self.groups, dtype=torch.float64)
        levels[self.uniform_groups] = self.level
        level = levels[group]
        parts = [(level > 0, self.unit_norm)]
        parts += [(group == k, norm) for k, norm in self.other_norms.items()]
        out = {
            field.name: torch.empty(len(rows), dtype=torch.float64)
            for field in fields(SingularExtremes)
        }
        for at, norm in parts:
            extremes = norm.singular_extremes(rows[at.to(rows.device)])
            for name, values in out.items():
                times = (
                    level[at]
                    if norm is self.unit_norm and name not in ("kappa", "live_kappa", "rank")
                    else 1.0
                )
                values[at] = getattr(extremes, name) * times
        return SingularExtremes(**out)


def prepare_group_spectrum(
    gain: Tensor | None, *, channels: int, groups: int, positions: int, eps: float
) -> GroupSpectrum:
    """Solve what depends on the gain alone.

    Args:
        gain: gamma, (C,), or None.
        channels: C.
        groups: G, a divisor of C.
        positions: number of positions in a group, 1 without positions.
        eps: what is added to the variance.

    Raises:
        NormdiagError: the sizes do not fit together, or eps is negative or not finite.
    """
    if groups < 1 or positions < 1 or channels % groups:
        raise NormdiagError(
            f"{channels} channels do not split into {groups} groups over {positions} positions",
            "the number of groups divides the number of channels",
        )
    if gain is None:
        gain = torch.ones(channels)
    if gain.shape != (channels,):
        raise NormdiagError(
            f"a group norm over {channels} channels has a gain of shape {tuple(gain.shape)}",
            "give one gain per channel",
        )
    size = channels // groups * positions
    each = gain.detach().to("cpu").to(torch.float64).abs().view(groups, -1)
    level = each[:, 0]
    is_uniform = (each == level[:, None]).all(1) & (level > 0)

    def prepare_group(values: Tensor) -> NormSpectrum:
        spread = values.repeat_interleave(positions)
        return prepare_norm_spectrum(spread, kind="layernorm", features=size, eps=eps)

    uniform = is_uniform.nonzero().flatten()
    others = {int(k): prepare_group(each[k]) for k in (~is_uniform).nonzero().flatten()}
    return GroupSpectrum(
        groups, uniform, level[uniform], prepare_group(torch.ones_like(each[0])), others
    )
