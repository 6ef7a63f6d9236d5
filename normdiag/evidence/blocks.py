"""Block Jacobians dy/dx at one token."""

from __future__ import annotations

from typing import Literal

from normdiag.evidence.record import record
from normdiag.evidence.stream import TokenPosition


@record
class BlockJacobian:
    """dy/dx at one token, x and y the stream before and after a span; singular values s_1 >= ..

    A span runs from the skip operand of one add to that of a later one (including the stream norm
    for post-norm), so consecutive blocks have no gap.
    """

    span: Literal["add", "layer", "stack"]
    token: TokenPosition
    sigma_max: float
    sigma_min: float | None
    """The smallest singular value that the placement does not make zero; an upper bound where
    `is_bound`."""
    kappa: float | None
    """sigma_max / sigma_min; a lower bound where `is_bound`."""
    mean_square: float | None
    """||J||_F^2 / H: 1 is dynamical isometry."""
    effective_rank: float | None
    """exp of the entropy of s / sum s (Roy and Vetterli 2007)."""
    zeros: int
    """Number of excluded singular values: those that the placement makes zero (up to epsilon)."""
    distance: float | None
    """||J - I||_2, where the block is skip plus branch."""
    method: Literal["dense", "iterative"]
    error: float
    """Relative error bound of sigma_max."""
    is_bound: bool = False
    layer: int | None = None
    mean_square_deviation: float | None = None
    """Standard deviation of `mean_square` where it is a stochastic estimate."""
    product: float | None = None
    """For a stack: the product of its layers' sigma_max, an upper bound of its own."""
