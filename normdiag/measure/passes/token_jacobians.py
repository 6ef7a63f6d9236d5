"""Singular values of a norm's Jacobian at rows of its input, by the closed form."""

from __future__ import annotations

import torch

from normdiag.measure.passes.learned_values import LearnedValues
from normdiag.numerics.group_norm_jacobian import prepare_group_spectrum
from normdiag.numerics.norm_jacobian import SingularExtremes, prepare_norm_spectrum
from normdiag.structure.algebraic_forms import DetectedNorm


def compute_token_jacobians(
    norm: DetectedNorm, rows: torch.Tensor, which: torch.Tensor, learned: LearnedValues
) -> SingularExtremes | None:
    """Compute the extremes at each of `rows` (tokens, features), whose numbers are `which`.

    None for norms whose Jacobian has another form (batch norms, L2 norms with a floor, DyT), and
    where the gain is unknown.
    """
    if norm.kind not in ("layernorm", "rmsnorm", "groupnorm") or norm.eps_place != "inside":
        return None
    gain = learned.gain_vector(norm)
    features = norm.source.shape[1] if norm.kind == "groupnorm" else rows.shape[-1]
    if norm.gains and (gain is None or gain.numel() != features):
        return None
    if norm.kind == "groupnorm":
        spectrum = prepare_group_spectrum(
            gain,
            channels=features,
            groups=norm.groups,
            positions=rows.shape[-1] * norm.groups // features,
            eps=learned.epsilon_value(norm) or 0.0,
        )
        return spectrum.row_extremes(rows, which.cpu() % norm.groups)
    # y = f z / sqrt(c m2 + eps) is y = (f / sqrt(c)) z / sqrt(m2 + eps / c)
    outer = norm.factor / norm.variance_scale**0.5
    if outer != 1.0:
        gain = (torch.ones(features, dtype=torch.float64) if gain is None else gain) * outer
    return prepare_norm_spectrum(
        gain,
        kind="layernorm" if norm.is_centred else "rmsnorm",
        features=features,
        eps=(learned.epsilon_value(norm) or 0.0) / norm.variance_scale,
    ).singular_extremes(rows)
