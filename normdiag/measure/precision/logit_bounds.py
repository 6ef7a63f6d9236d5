"""How large attention logits can become whose q and k leave a norm.

With gains g and x of unit mean square, ||g x|| <= max|g| sqrt(d) + ||bias||; a rotary embedding
keeps lengths; and |q . k| <= ||q|| ||k|| (Cauchy-Schwarz). Where nothing is turned between the
norms and the product and there is no bias, |q . k| <= max|gq gk| d, which is never larger.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch

from normdiag.evidence.precision import LogitBound
from normdiag.measure.passes.learned_values import LearnedValues
from normdiag.measure.sites.branch_peaks import BranchPeaks
from normdiag.structure.flow import ScaleFactor
from normdiag.structure.forms import DetectedNorm
from normdiag.structure.logits import NormedLogits


def logit_bounds(
    peaks: BranchPeaks, ids: Mapping[DetectedNorm, str], learned: LearnedValues
) -> dict[str, LogitBound]:
    """Id of the q norm -> the bound, for attentions whose gains and scales are known."""
    found = {}
    for name, logits in peaks.logits.items():
        scale = _largest_scale(logits.factors, learned)
        product = _product(logits, learned)
        if scale is None or product is None:
            continue
        behind = _largest_scale(logits.behind, learned)
        score = peaks.scores.get(name)
        found[name] = LogitBound(
            bound=product * scale,
            k_norm=ids[logits.k],
            scale=scale,
            seen=None if score is None or behind is None else score * behind,
        )
    return found


def _largest_scale(factors: tuple[ScaleFactor, ...], learned: LearnedValues) -> float | None:
    scale = learned.scale_vector(factors)
    return None if scale is None else float(scale.abs().max())


def _product(logits: NormedLogits, learned: LearnedValues) -> float | None:
    """The largest |q . k| before any scale."""
    q, k = (_gain(norm, learned) for norm in (logits.q, logits.k))
    if q is None or k is None:
        return None
    has_bias = bool(logits.q.biases or logits.k.biases)
    if not logits.is_rotated and not has_bias and q.shape == k.shape:
        return float((q * k).abs().max()) * _radius(logits.q) * _radius(logits.k)
    lengths = [
        float(gain.abs().max()) * _radius(norm) + _bias(norm, learned)
        for norm, gain in ((logits.q, q), (logits.k, k))
    ]
    return lengths[0] * lengths[1]


def _gain(norm: DetectedNorm, learned: LearnedValues) -> torch.Tensor | None:
    if norm.axes != (-1,):
        return None
    if not norm.gains:
        return torch.ones(norm.count, dtype=torch.float64)
    return learned.gain_vector(norm)


def _radius(norm: DetectedNorm) -> float:
    """The largest length of what is multiplied by the gain: sqrt(d), 1 for an L2 norm."""
    return norm.factor * math.sqrt(norm.count / norm.variance_scale)


def _bias(norm: DetectedNorm, learned: LearnedValues) -> float:
    bias = learned.bias_vector(norm)
    return 0.0 if bias is None else float(bias.norm())
