"""The conditioning of one norm's Jacobian: medians over sampled tokens, extremes over all."""

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
from normdiag.measure.passes.token_jacobians import compute_token_jacobians
from normdiag.measure.sites.norm_inputs import norm_denominator
from normdiag.measure.sites.samples import NormSample
from normdiag.measure.statistics.jacobian_extremes import JacobianExtremes
from normdiag.numerics.gain_spectrum import DEAD
from normdiag.numerics.norm_jacobian import SingularExtremes
from normdiag.structure.algebraic_forms import DetectedNorm


def measure_norm_jacobian(
    norm: DetectedNorm,
    samples: Sequence[NormSample],
    learned: LearnedValues,
    extremes: JacobianExtremes,
) -> NormJacobian | None:
    """Medians of the singular values over the sampled tokens, extremes over all tokens.

    A batch norm with running statistics is linear, with the same Jacobian at every token. None for
    norms whose Jacobian has another form (batch statistics, L2 norms with a floor, DyT).
    """
    if norm.running_var is not None and norm.eps_place == "inside":
        return _running_jacobian(norm, norm.running_var, learned)
    if norm.eps_place not in ("inside", "outside"):
        if not any(sample.rows.numel() for sample in samples) or _touch_floor(
            norm, samples, learned
        ):
            return None
        norm = replace(norm, eps=0.0, eps_place="inside")  # above its floor epsilon has no effect
    sampled = _sample_extremes(norm, samples, learned)
    if sampled is None or bool(sampled.sigma_max.isnan().all()):
        return None
    largest = JacobianExtremes()
    largest.update(sampled)
    sample = largest.tokens
    largest.merge(extremes)

    def add_median(values: torch.Tensor, largest: float) -> MedianMax | None:
        present = values[~values.isnan()].numpy()
        return MedianMax(median=float(np.median(present)), max=largest) if present.size else None

    smallest = sampled.sigma_min[~sampled.sigma_min.isnan()].numpy()
    sigma_max = add_median(sampled.sigma_max, largest.sigma_max)
    assert sigma_max is not None
    return NormJacobian(
        sigma_max=sigma_max,
        sigma_min=MedianMin(median=float(np.median(smallest)), min=largest.sigma_min)
        if smallest.size
        else None,
        kappa=add_median(sampled.kappa, largest.kappa),
        radial=add_median(sampled.radial, largest.radial),
        tokens=extremes.tokens or sample,
        live_kappa=add_median(sampled.live_kappa, largest.live_kappa),
        sample=sample,
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
        sample=1,
    )


def _sample_extremes(
    norm: DetectedNorm, samples: Sequence[NormSample], learned: LearnedValues
) -> SingularExtremes | None:
    """Sample by sample: the number of positions in a group is the input's."""
    parts = [compute_token_jacobians(norm, s.input_rows, s.rows, learned) for s in samples]
    solved = [part for part in parts if part is not None]
    return SingularExtremes.concatenate_tokens(solved) if solved else None
