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
from normdiag.structure.algebraic_forms import DetectedNorm
from normdiag.structure.build_architecture import SiteMap
from normdiag.structure.dataflow import ScaleFactor
from normdiag.structure.qk_normed_logits import NormedLogits, find_normed_logits


def compute_logit_bounds(
    sites: SiteMap, learned: LearnedValues, observed: Mapping[int, float]
) -> dict[str, LogitBound]:
    """Id of the q norm -> the bound, for attentions whose gains and scales are known.

    `observed`: the largest |logit| by the place of its q . k in the forward.
    """
    bounds = {}
    for name, logits in find_logits(sites).items():
        scale = _largest_scale(logits.factors, learned)
        product = _product_bound(logits, learned)
        if scale is None or product is None:
            continue
        bounds[name] = LogitBound(
            bound=product * scale,
            k_norm=sites.norms[logits.k],
            scale=scale,
            max_observed=observed.get(logits.score.index),
        )
    return bounds


def find_logits(sites: SiteMap) -> dict[str, NormedLogits]:
    """Id of the q norm -> the attention whose q and k leave a norm."""
    attentions: dict[str, NormedLogits] = {}
    for stack in sites.stacks.values():
        for facts in stack.adds:
            for logits in find_normed_logits(stack.regions[facts.add], facts.qk_norms):
                attentions.setdefault(sites.norms[logits.q], logits)
    return attentions


def _largest_scale(factors: tuple[ScaleFactor, ...], learned: LearnedValues) -> float | None:
    scale = learned.scale_vector(factors)
    return None if scale is None else float(scale.abs().max())


def _product_bound(logits: NormedLogits, learned: LearnedValues) -> float | None:
    """The largest |q . k| before any scale."""
    q, k = (_gain_vector(norm, learned) for norm in (logits.q, logits.k))
    if q is None or k is None:
        return None
    has_bias = bool(logits.q.biases or logits.k.biases)
    if not logits.is_rotated and not has_bias and q.shape == k.shape:
        return float((q * k).abs().max()) * _largest_length(logits.q) * _largest_length(logits.k)
    lengths = [
        float(gain.abs().max()) * _largest_length(norm) + _bias_norm(norm, learned)
        for norm, gain in ((logits.q, q), (logits.k, k))
    ]
    return lengths[0] * lengths[1]


def _gain_vector(norm: DetectedNorm, learned: LearnedValues) -> torch.Tensor | None:
    if norm.axes != (-1,):
        return None
    if not norm.gains:
        return torch.ones(norm.count, dtype=torch.float64)
    return learned.gain_vector(norm)


def _largest_length(norm: DetectedNorm) -> float:
    """The largest length of what is multiplied by the gain: sqrt(d), 1 for an L2 norm."""
    return norm.factor * math.sqrt(norm.count / norm.variance_scale)


def _bias_norm(norm: DetectedNorm, learned: LearnedValues) -> float:
    bias = learned.bias_vector(norm)
    return 0.0 if bias is None else float(bias.norm())
