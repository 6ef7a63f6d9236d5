"""The conditioning of each norm's Jacobian, by the closed form, on sampled tokens."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from normdiag.evidence.norm_inputs import NormJacobian
from normdiag.measure.passes.learned_values import LearnedValues
from normdiag.measure.passes.observer import NormRecord
from normdiag.measure.statistics.summaries import Numbers, least, worst
from normdiag.numerics.group_norm_jacobian import prepare_groups
from normdiag.numerics.norm_jacobian import Extremes, prepare


def norm_jacobian(records: Sequence[NormRecord], learned: LearnedValues) -> NormJacobian | None:
    """None for norms whose Jacobian has another form (batch norms, L2 floors, DyT)."""
    norm = records[0].found
    is_known = norm.kind in ("layernorm", "rmsnorm", "groupnorm") and norm.eps_place == "inside"
    if not is_known or not any(r.rows.numel() for r in records):
        return None
    of_kind = _of_groups if norm.kind == "groupnorm" else _of_tokens
    extremes = of_kind(records, learned)
    if extremes is None:
        return None
    sigma_max = extremes.sigma_max.numpy()
    if np.isnan(sigma_max).all():
        return None
    sigma_min = _defined(extremes.sigma_min)
    kappa = _defined(extremes.kappa)
    radial = _defined(extremes.radial)
    return NormJacobian(
        sigma_max=worst(sigma_max[~np.isnan(sigma_max)]),
        sigma_min=None if sigma_min is None else least(sigma_min),
        kappa=None if kappa is None else worst(kappa),
        radial=None if radial is None else worst(radial),
        tokens=sum(r.rows.numel() for r in records),
    )


def _of_tokens(records: Sequence[NormRecord], learned: LearnedValues) -> Extremes | None:
    norm = records[0].found
    rows = torch.cat([r.input_rows.detach().cpu() for r in records])
    gain = learned.gain_vector(norm)
    features = rows.shape[-1]
    if norm.gains and (gain is None or gain.numel() != features):
        return None
    # y = f z / sqrt(c m2 + eps) is y = (f / sqrt(c)) z / sqrt(m2 + eps / c)
    outer = norm.factor / norm.variance_scale**0.5
    if outer != 1.0:
        gain = (torch.ones(features, dtype=torch.float64) if gain is None else gain) * outer
    spectrum = prepare(
        gain,
        kind="layernorm" if norm.is_centred else "rmsnorm",
        features=features,
        eps=(learned.epsilon_value(norm) or 0.0) / norm.variance_scale,
    )
    return spectrum.extremes(rows)


def _of_groups(records: Sequence[NormRecord], learned: LearnedValues) -> Extremes | None:
    """Each sampled row is one group of one input; how many positions it spans is the input's."""
    norm = records[0].found
    gain = learned.gain_vector(norm)
    channels = norm.source.shape[1]
    if norm.gains and (gain is None or gain.numel() != channels):
        return None
    parts = []
    for record in records:
        rows = record.input_rows.detach().cpu()
        spectrum = prepare_groups(
            gain,
            channels=channels,
            groups=norm.groups,
            positions=rows.shape[-1] * norm.groups // channels,
            eps=learned.epsilon_value(norm) or 0.0,
        )
        parts.append(spectrum.of_rows(rows, record.rows.cpu() % norm.groups))
    return Extremes.concatenate(parts)


def _defined(values: torch.Tensor) -> Numbers | None:
    array = values.numpy()
    array = array[~np.isnan(array)]
    return array if array.size else None
