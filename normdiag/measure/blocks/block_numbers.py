"""From the Jacobian of one span to its numbers, each with an error that is true."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from statistics import median, median_high, median_low
from typing import Literal

import torch
from torch import Tensor

from normdiag.evidence.blocks import RESOLVED_ULPS, BlockJacobian, TokenBlock
from normdiag.evidence.statistics import Quantiles
from normdiag.evidence.stream import TokenPosition
from normdiag.measure.blocks.spans import StreamSpan
from normdiag.numerics.frobenius_norm import estimate_frobenius_square
from normdiag.numerics.matrix_spectrum import compute_matrix_spectrum
from normdiag.numerics.operators import LinearOperator, matrix_operator
from normdiag.numerics.singular_values import find_singular_range

STEPS, TOLERANCE = 60, 5e-3
"""Of the iteration for sigma_max where J is not held. Each step is two passes over the graph."""
HELD_TOLERANCE = 1e-3
"""Of the iteration for ||J - I||_2 where J is held, and a step costs next to nothing."""
SAMPLES = 8
"""Products with random vectors, for ||J||_F and for how far two maps are apart."""
ROUNDING = 24
"""A derivative in the model's precision is off by some ulps of its largest singular value."""


@dataclass(frozen=True, slots=True)
class BlockSite:
    """Which block it is, and what is known of it without looking at its numbers."""

    span: Literal["add", "layer", "stack"]
    token: TokenPosition
    layer: int | None
    zeros: int
    """Singular values that the norms on the stream make zero."""
    context: int
    """Tokens of the sequence in the forward."""
    is_plain: bool
    """Whether it is a skip path, as it came, plus branches: near the identity if they are small."""


def estimate_disagreement(span: StreamSpan, product: Tensor) -> float:
    """||J - product||_2 where rounding alone sets the two apart, from what vectors are mapped to.

    E ||w'A||^2 = ||A||_F^2 for w ~ N(0, I), and a matrix without structure has ||A||_2 of about
    2 ||A||_F / sqrt(H). Three times that is returned.
    """
    generator = torch.Generator().manual_seed(0)
    vectors = torch.randn(SAMPLES, span.width, generator=generator).to(product)
    off = span.pull_back(vectors) - vectors @ product
    frobenius = off.square().sum(-1).mean().sqrt()
    return float(6.0 * frobenius / math.sqrt(span.width))


def summarise_matrix(
    jacobian: Tensor, place: BlockSite, dtype: torch.dtype, off: float
) -> BlockJacobian:
    """All numbers of a Jacobian (H, H) that is held, computed in `dtype`, `off` in the 2-norm."""
    spectrum = compute_matrix_spectrum(jacobian, place.zeros)
    ulp = torch.finfo(dtype).eps
    top = spectrum.sigma_max
    unresolved = RESOLVED_ULPS * ulp * top + off
    is_bound = spectrum.sigma_min < unresolved
    sigma_min = spectrum.sigma_min + (unresolved if is_bound else 0.0)
    away = None
    if place.is_plain:
        less = matrix_operator(jacobian - torch.eye(len(jacobian)).to(jacobian))
        away = find_singular_range(less, steps=STEPS, tolerance=HELD_TOLERANCE).sigma_max
    return BlockJacobian(
        span=place.span,
        token=place.token,
        layer=place.layer,
        context=place.context,
        sigma_max=top,
        sigma_min=sigma_min,
        kappa=top / sigma_min if sigma_min > 0 else None,
        mean_square=spectrum.mean_square,
        effective_rank=spectrum.effective_rank,
        zeros=place.zeros,
        distance=away,
        method="dense",
        error=ROUNDING * ulp + (off / top if top > 0 else 0.0),
        is_bound=is_bound,
        singular_values=spectrum.quantiles,
    )


def summarise_tokens(blocks: Sequence[BlockJacobian]) -> BlockJacobian:
    """The medians over tokens of one block, and each token's numbers.

    Each is the number of a token. Of two in the middle it is the one further from an isometry: the
    larger one, and the smaller sigma_min; of kappa the smaller, which more than half of the tokens
    reach.
    """
    last = max(blocks, key=lambda block: block.token.position)
    each = {block.token: block for block in blocks}
    ordered = [each[token] for token in sorted(each, key=lambda token: token.position)]
    kappas = [_kappa(block) for block in ordered]
    worst = [math.inf if block.is_bound else _kappa(block) for block in ordered]
    smallest = [block.sigma_min for block in ordered if block.sigma_min is not None]
    least = [0.0 if block.is_bound else block.sigma_min or 0.0 for block in ordered]
    return replace(
        last,
        sigma_max=median_high(block.sigma_max for block in ordered),
        sigma_min=median_low(smallest) if smallest else None,
        kappa=median_low(kappas) if any(block.kappa is not None for block in ordered) else None,
        mean_square=_median_of(block.mean_square for block in ordered),
        mean_square_deviation=max(
            (b.mean_square_deviation for b in ordered if b.mean_square_deviation is not None),
            default=None,
        ),
        distance=_median_of(block.distance for block in ordered),
        product=_median_of(block.product for block in ordered),
        error=max(block.error for block in ordered),
        method="iterative" if any(b.method == "iterative" for b in ordered) else "dense",
        is_bound=any(block.is_bound for block in ordered)
        and (
            median_low(worst) != median_low(kappas)
            or median_low(least) != median_low(smallest or [0.0])
        ),
        context=max((b.context for b in ordered if b.context is not None), default=None),
        tokens=tuple(_token_block(block) for block in ordered),
        singular_values=_median_quantiles([block.singular_values for block in ordered]),
    )


def _kappa(block: BlockJacobian) -> float:
    """Infinite where sigma_min is zero."""
    return math.inf if block.kappa is None else block.kappa


def _median_of(values: Iterable[float | None]) -> float | None:
    present = [value for value in values if value is not None]
    return median_high(present) if present else None


def _median_quantiles(tokens: Sequence[Quantiles | None]) -> Quantiles | None:
    """The median over tokens of each quantile; None where one of them has none."""
    present = [quantiles for quantiles in tokens if quantiles is not None]
    if len(present) < len(tokens):
        return None
    names = [field.name for field in fields(Quantiles)]
    return Quantiles(**{name: median(getattr(each, name) for each in present) for name in names})


def _token_block(block: BlockJacobian) -> TokenBlock:
    return TokenBlock(
        token=block.token,
        sigma_max=block.sigma_max,
        sigma_min=block.sigma_min,
        kappa=block.kappa,
        mean_square=block.mean_square,
        distance=block.distance,
        method=block.method,
        error=block.error,
        is_bound=block.is_bound,
        context=block.context,
    )


def summarise_products(span: StreamSpan, place: BlockSite) -> BlockJacobian:
    """What products with a Jacobian tell: sigma_max, a bound of sigma_min, ||J||_F^2 / H."""
    operator = span.linear_operator()
    ends = find_singular_range(operator, steps=STEPS, tolerance=TOLERANCE, zeros=place.zeros)
    square = estimate_frobenius_square(operator, samples=SAMPLES)
    away = None
    if place.is_plain:
        away = find_singular_range(
            _subtract_identity(operator), steps=STEPS, tolerance=TOLERANCE
        ).sigma_max
    top = ends.sigma_max
    return BlockJacobian(
        span=place.span,
        token=place.token,
        layer=place.layer,
        context=place.context,
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


def _subtract_identity(operator: LinearOperator) -> LinearOperator:
    """A - I."""
    return LinearOperator(
        operator.rows,
        operator.columns,
        lambda v: operator.matvec(v) - v,
        lambda w: operator.rmatvec(w) - w,
        operator.dtype,
        operator.device,
    )
