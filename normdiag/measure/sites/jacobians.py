"""The conditioning of one norm's Jacobian, by the closed form, on sampled tokens."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch

from normdiag.evidence.norm_inputs import NormJacobian
from normdiag.evidence.statistics import MedianMax, MedianMin
from normdiag.graph import Node
from normdiag.measure.passes.learned_values import LearnedValues
from normdiag.measure.sites.norm_inputs import norm_denominator
from normdiag.measure.sites.samples import NormSample
from normdiag.measure.statistics.summaries import Numbers, median_and_max, median_and_min
from normdiag.numerics.gain_spectrum import DEAD
from normdiag.numerics.group_norm_jacobian import prepare_group_spectrum
from normdiag.numerics.norm_jacobian import SingularExtremes, prepare_norm_spectrum
from normdiag.structure.algebraic_forms import DetectedNorm


def measure_norm_jacobian(
    norm: DetectedNorm, samples: Sequence[NormSample], learned: LearnedValues
) -> NormJacobian | None:
    """Singular values at the sampled tokens.

    A batch norm with running statistics is linear, with the same Jacobian at every token. None for
    norms whose Jacobian has another form (batch statistics, L2 norms with a floor, DyT).
    """
    if norm.running_var is not None and norm.eps_place == "inside":
        return _running_jacobian(norm, norm.running_var, learned)
    if norm.kind not in ("layernorm", "rmsnorm", "groupnorm") or norm.eps_place == "outside":
        return None
    if not any(sample.rows.numel() for sample in samples):
        return None
    if norm.eps_place != "inside":
        if _touch_floor(norm, samples, learned):
            return None
        norm = replace(norm, eps=0.0, eps_place="inside")  # above its floor epsilon has no effect
    compute_extremes = _group_extremes if norm.kind == "groupnorm" else _token_extremes
    extremes = compute_extremes(norm, samples, learned)
    if extremes is None:
        return None
    sigma_max = extremes.sigma_max.numpy()
    if np.isnan(sigma_max).all():
        return None
    sigma_min = _without_nan(extremes.sigma_min)
    kappa = _without_nan(extremes.kappa)
    live_kappa = _without_nan(extremes.live_kappa)
    radial = _without_nan(extremes.radial)
    return NormJacobian(
        sigma_max=median_and_max(sigma_max[~np.isnan(sigma_max)]),
        sigma_min=None if sigma_min is None else median_and_min(sigma_min),
        kappa=None if kappa is None else median_and_max(kappa),
        radial=None if radial is None else median_and_max(radial),
        tokens=sum(sample.rows.numel() for sample in samples),
        live_kappa=None if live_kappa is None else median_and_max(live_kappa),
    )


def _touch_floor(norm: DetectedNorm, samples: Sequence[NormSample], learned: LearnedValues) -> bool:
    """Whether epsilon, a floor, is what divides any sampled row."""
    rows = torch.cat([sample.input_rows.double() for sample in samples])
    if norm.is_centred:
        rows = rows - rows.mean(-1, keepdim=True)
    m2 = rows.square().mean(-1).numpy()
    return bool((norm_denominator(norm, learned).eps_share(m2) > 0).any())


def _running_jacobian(
    norm: DetectedNorm, running_var: Node, learned: LearnedValues
) -> NormJacobian | None:
    """diag(gain / s), s = sqrt(running variance + eps): its singular values are |gain| / s."""
    variance, gain = learned.find_tensor(running_var), learned.gain_vector(norm)
    if variance is None or (norm.gains and gain is None):
        return None
    variance = variance.detach().double().cpu().reshape(-1)
    gain = torch.ones_like(variance) if gain is None else gain
    if gain.shape != variance.shape or not variance.numel():
        return None
    denominator = norm_denominator(norm, learned).compute_denominator(variance.numpy())
    values = np.abs(gain.numpy()) / denominator
    if not np.isfinite(values).all():
        return None
    largest, smallest = float(values.max()), float(values.min())
    kappa = largest / smallest if smallest > 0 else math.inf
    live = values[values > DEAD * largest]
    live_kappa = largest / float(live.min()) if live.size else None
    return NormJacobian(
        sigma_max=MedianMax(median=largest, max=largest),
        sigma_min=MedianMin(median=smallest, min=smallest),
        kappa=MedianMax(median=kappa, max=kappa),
        radial=None,
        tokens=1,
        live_kappa=None if live_kappa is None else MedianMax(median=live_kappa, max=live_kappa),
    )


def _token_extremes(
    norm: DetectedNorm, samples: Sequence[NormSample], learned: LearnedValues
) -> SingularExtremes | None:
    rows = torch.cat([sample.input_rows for sample in samples])
    gain = learned.gain_vector(norm)
    features = rows.shape[-1]
    if norm.gains and (gain is None or gain.numel() != features):
        return None
    # y = f z / sqrt(c m2 + eps) is y = (f / sqrt(c)) z / sqrt(m2 + eps / c)
    outer = norm.factor / norm.variance_scale**0.5
    if outer != 1.0:
        gain = (torch.ones(features, dtype=torch.float64) if gain is None else gain) * outer
    spectrum = prepare_norm_spectrum(
        gain,
        kind="layernorm" if norm.is_centred else "rmsnorm",
        features=features,
        eps=(learned.epsilon_value(norm) or 0.0) / norm.variance_scale,
    )
    return spectrum.singular_extremes(rows)


def _group_extremes(
    norm: DetectedNorm, samples: Sequence[NormSample], learned: LearnedValues
) -> SingularExtremes | None:
    """Each sampled row is one group of one input; how many positions it spans is the input's."""
    gain = learned.gain_vector(norm)
    channels = norm.source.shape[1]
    if norm.gains and (gain is None or gain.numel() != channels):
        return None
    parts = []
    for sample in samples:
        rows = sample.input_rows
        spectrum = prepare_group_spectrum(
            gain,
            channels=channels,
            groups=norm.groups,
            positions=rows.shape[-1] * norm.groups // channels,
            eps=learned.epsilon_value(norm) or 0.0,
        )
        parts.append(spectrum.row_extremes(rows, sample.rows % norm.groups))
    return SingularExtremes.concatenate_tokens(parts)


def _without_nan(values: torch.Tensor) -> Numbers | None:
    array = values.numpy()
    array = array[~np.isnan(array)]
    return array if array.size else None
