"""From the Jacobian of one span to its numbers, each with an error that is true."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from normdiag.evidence.blocks import Block
from normdiag.evidence.stream import Position
from normdiag.measure.blocks.spans import Span
from normdiag.numerics.frobenius_norm import frobenius_square
from normdiag.numerics.operators import LinearOperator, matrix
from normdiag.numerics.singular_values import singular_range
from normdiag.numerics.spectrum import spectrum

STEPS, TOLERANCE = 60, 5e-3
"""Of the iteration for sigma_max where J is not held. Each step is two passes over the graph."""
HELD_TOLERANCE = 1e-3
"""Of the iteration for ||J - I||_2 where J is held, and a step costs next to nothing."""
SAMPLES = 8
"""Products with random vectors, for ||J||_F and for how far two maps are apart."""
ROUNDING = 16
"""A derivative in the model's precision is off by some ulps of its largest singular value."""
RESOLVED = 8
"""Ulps of sigma_max below which no singular value is told from zero."""


@dataclass(frozen=True, slots=True)
class Place:
    """Which block it is, and what is known of it without looking at its numbers."""

    span: Literal["add", "layer", "stack"]
    token: Position
    layer: int | None
    zeros: int
    """Singular values that the norms on the stream make zero."""
    is_plain: bool
    """Whether it is a skip path, as it came, plus branches: near the identity if they are small."""


def disagreement(span: Span, product: Tensor) -> float:
    """||J - product||_2 where rounding alone sets the two apart, from what vectors are mapped to.

    E ||w'A||^2 = ||A||_F^2 for w ~ N(0, I), and a matrix without structure has ||A||_2 of about
    2 ||A||_F / sqrt(H). Three times that is given.
    """
    generator = torch.Generator().manual_seed(0)
    vectors = torch.randn(SAMPLES, span.width, generator=generator).to(product)
    off = span.pull(vectors) - vectors @ product
    frobenius = off.square().sum(-1).mean().sqrt()
    return float(6.0 * frobenius / math.sqrt(span.width))


def from_matrix(jacobian: Tensor, place: Place, dtype: torch.dtype, off: float) -> Block:
    """All numbers of a Jacobian (H, H) that is held, computed in `dtype`, `off` in the 2-norm."""
    found = spectrum(jacobian, place.zeros)
    ulp = torch.finfo(dtype).eps
    top = found.sigma_max
    unresolved = RESOLVED * ulp * top + off
    is_bound = found.sigma_min < unresolved
    sigma_min = found.sigma_min + (unresolved if is_bound else 0.0)
    away = None
    if place.is_plain:
        less = matrix(jacobian - torch.eye(len(jacobian)).to(jacobian))
        away = singular_range(less, steps=STEPS, tolerance=HELD_TOLERANCE).sigma_max
    return Block(
        span=place.span,
        token=place.token,
        layer=place.layer,
        sigma_max=top,
        sigma_min=sigma_min,
        kappa=top / sigma_min if sigma_min > 0 else None,
        mean_square=found.mean_square,
        effective_rank=found.effective_rank,
        zeros=place.zeros,
        distance=away,
        method="dense",
        error=ROUNDING * ulp + (off / top if top > 0 else 0.0),
        is_bound=is_bound,
    )


def from_products(span: Span, place: Place) -> Block:
    """What products with a Jacobian tell: sigma_max, a bound of sigma_min, ||J||_F^2 / H."""
    operator = span.operator()
    ends = singular_range(operator, steps=STEPS, tolerance=TOLERANCE, zeros=place.zeros)
    square = frobenius_square(operator, samples=SAMPLES)
    away = None
    if place.is_plain:
        away = singular_range(_less_identity(operator), steps=STEPS, tolerance=TOLERANCE).sigma_max
    top = ends.sigma_max
    return Block(
        span=place.span,
        token=place.token,
        layer=place.layer,
        sigma_max=top,
        sigma_min=ends.sigma_min,
        kappa=top / ends.sigma_min if ends.sigma_min > 0 else None,
        mean_square=square.value / span.width,
        mean_square_deviation=square.deviation / span.width,
        effective_rank=None,
        zeros=place.zeros,
        distance=away,
        method="iterative",
        error=ROUNDING * torch.finfo(span.dtype).eps
        + (ends.sigma_max_error / top if top > 0 else 0.0),
        is_bound=True,
    )


def _less_identity(operator: LinearOperator) -> LinearOperator:
    """A - I."""
    return LinearOperator(
        operator.rows,
        operator.columns,
        lambda v: operator.matvec(v) - v,
        lambda w: operator.rmatvec(w) - w,
        operator.dtype,
        operator.device,
    )
