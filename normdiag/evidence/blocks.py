"""What a span of the stream does to a small change of it: the Jacobian of a block at one token."""

from __future__ import annotations

from typing import Literal

from normdiag.evidence.record import record
from normdiag.evidence.stream import TokenPosition


@record
class BlockJacobian:
    """dy/dx at one token, x and y the stream before and after a span; singular values s_1 >= ..

    A span runs from the skip operand of one add to that of a later one (through the stream norm,
    for post-norm), so blocks follow each other without a gap.
    """

    span: Literal["add", "layer", "stack"]
    token: TokenPosition
    sigma_max: float
    sigma_min: float | None
    """The smallest that the placement does not make zero; an upper bound where `is_bound`."""
    kappa: float | None
    """sigma_max / sigma_min; a lower bound where `is_bound`."""
    mean_square: float | None
    """||J||_F^2 / H: 1 is dynamical isometry."""
    effective_rank: float | None
    """exp of the entropy of s / sum s (Roy and Vetterli 2007)."""
    zeros: int
    """Singular values left out: the zeros (epsilon apart) that belong to the placement."""
    distance: float | None
    """||J - I||_2, where the block is a skip path plus a branch."""
    method: Literal["dense", "iterative"]
    error: float
    """Relative: the true sigma_max is within this share of the one given."""
    is_bound: bool = False
    layer: int | None = None
    mean_square_deviation: float | None = None
    """Standard deviation of `mean_square`, where that is an estimate from random products."""
    product: float | None = None
    """Of a stack: the product of its layers' sigma_max, beside which its own stands."""
