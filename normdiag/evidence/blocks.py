"""Block Jacobians dy/dx at one token."""

from __future__ import annotations

from typing import Literal

from normdiag.evidence.record import record
from normdiag.evidence.statistics import Quantiles
from normdiag.evidence.stream import TokenPosition

RESOLVED_ULPS = 8
"""Ulps of sigma_max below which no singular value can be distinguished from zero."""


@record
class TokenBlock:
    """The Jacobian of a block at one token."""

    token: TokenPosition
    sigma_max: float
    sigma_min: float | None
    kappa: float | None
    mean_square: float | None
    distance: float | None
    method: Literal["dense", "iterative"]
    error: float
    """Relative error bound of `sigma_max`."""
    is_bound: bool = False
    """Whether `sigma_min` is an upper bound, and so `kappa` a lower one."""
    context: int | None = None
    """Tokens of the sequence in the forward: those up to the token in a causal model, else the
    first ones and the very last one."""


@record
class BlockJacobian:
    """dy/dx at one token, x and y the stream before and after a span; singular values s_1 >= ..

    `sigma_max`, `sigma_min`, `kappa`, `mean_square` and `distance` are medians over `tokens`, which
    lie at different depths of context. Each is the number of one token: of two in the middle the
    larger one, of `sigma_min` and `kappa` the smaller; so more than half of the tokens reach
    `kappa`.

    A span runs from the skip operand of one add to that of a later one (including the stream norm
    for post-norm), so consecutive blocks have no gap.
    """

    span: Literal["add", "layer", "stack"]
    token: TokenPosition
    """The last of `tokens`."""
    sigma_max: float
    sigma_min: float | None
    """The smallest singular value that the placement does not make zero; an upper bound where
    `is_bound`. Null where the stream passes an activation: what that shuts is lost by design."""
    kappa: float | None
    """sigma_max / sigma_min; a lower bound where `is_bound`."""
    mean_square: float | None
    """||J||_F^2 / H: 1 is dynamical isometry."""
    effective_rank: float | None
    """exp of the entropy of s / sum s (Roy and Vetterli 2007), at `token`."""
    zeros: int
    """Number of excluded singular values: those that the placement makes zero (up to epsilon)."""
    distance: float | None
    """||J - I||_2, where the block is skip plus branch."""
    method: Literal["dense", "iterative"]
    error: float
    """Relative error bound of sigma_max, the largest of the tokens'."""
    is_bound: bool = False
    """Whether the medians of sigma_min and kappa are bounds."""
    layer: int | None = None
    mean_square_deviation: float | None = None
    """Standard deviation of `mean_square` where it is a stochastic estimate."""
    product: float | None = None
    """For a stack: the median over tokens of the product of its layers' sigma_max, an upper bound
    of its own where tokens exchange nothing that comes back, as in a causal model."""
    context: int | None = None
    """Tokens of the sequence in the longest forward that was differentiated."""
    tokens: tuple[TokenBlock, ...] = ()
    """The values at each token, by position."""
    singular_values: Quantiles | None = None
    """Quantiles of all singular values but the `zeros`, each the median over tokens and off by at
    most `error` sigma_max; null where a Jacobian is too wide to hold ("iterative")."""
