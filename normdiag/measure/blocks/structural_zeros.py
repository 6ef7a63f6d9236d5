"""How many singular values of a span's Jacobian the norms on the stream make zero."""

from __future__ import annotations

from collections.abc import Iterable

import torch

from normdiag.measure.passes.learned_values import LearnedValues
from normdiag.structure.algebraic_forms import DetectedNorm

_PROJECTING = ("layernorm", "rmsnorm", "l2norm")


def count_structural_zeros(
    norms: Iterable[DetectedNorm], learned: LearnedValues, dtype: torch.dtype
) -> int:
    """Of a span whose stream goes through `norms`, epsilon apart; H less the generic rank.

    A norm's Jacobian diag(g) (I - uu' - zz') / s takes the mean (where it is centred) and the
    radius away, and every gain that is zero takes a row. With the rows go directions that are lost
    already, so the larger of both numbers counts, not the sum; over several norms as well.
    """
    return max((_count_zeros(norm, learned, dtype) for norm in norms), default=0)


def _count_zeros(norm: DetectedNorm, learned: LearnedValues, dtype: torch.dtype) -> int:
    lost = 0
    if norm.kind in _PROJECTING and norm.groups == 1:
        lost = 2 if norm.is_centred else 1
    gain = learned.gain_vector(norm)
    if gain is None or gain.numel() == 0:
        return lost
    sizes = gain.abs()
    dead = sizes <= torch.finfo(dtype).eps * sizes.max()  # below the rounding of the others
    return max(lost, int(dead.sum()))
