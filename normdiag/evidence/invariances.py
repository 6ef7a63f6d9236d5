"""What the norms of a model are blind to, and what they should be blind to and are not."""

from __future__ import annotations

from dataclasses import field
from typing import Literal

from normdiag.evidence.record import record
from normdiag.evidence.statistics import MedianMax


@record
class KindInvariance:
    """One kind of norm, run at its first site on what that site saw; ||change|| / ||output||, the
    output without its bias; 0 is invariant, null is not defined there."""

    norm: str
    """The norm that was probed."""
    method: Literal["module", "formula"]
    """What was run: the norm's own module, or the norm as it was found in the graph."""
    scale: float
    """x -> 2 x."""
    shift: float
    """x -> x + the same constant in every feature, one standard deviation."""
    batch: float | None
    """Train mode: other sequences in the batch replaced."""
    padding: float | None
    """Train mode: as many padded positions (zeros) as there are tokens added behind them."""
    train_vs_eval: float | None
    """Train mode against eval mode."""
    batch_size_one: float | None
    """Train mode at batch size 1: the share of the output's energy that is left; null where the
    kind takes no statistic over the batch."""


@record
class NormInvariance:
    """One norm in closed form, from its eps_share e = eps / (m2 + eps), per token."""

    scale: MedianMax
    """||N(2x) - N(x)|| / ||N(x)||, without bias: 2 / sqrt(4 - 3 e) - 1; 1 where epsilon is all."""
    radial: MedianMax
    """<x, dL/dx> / <N(x) - bias, dL/dN>: e. At 0 the gradient is orthogonal to the input."""


@record
class CentringEffect:
    """What taking the mean away takes away: mean energy times H, 1 by chance; over `norms` norms.

    Far above 1, LayerNorm and RMSNorm are not the same there."""

    kind: Literal["layernorm", "rmsnorm"]
    norms: int
    median: float
    max: float
    norm: str
    """Where it is largest."""
    share: float
    """The mean energy there: the share of ||x||^2 that centring removes."""


@record
class ScaleInvariantWeight:
    """A weight that feeds only norms: its scale changes nothing but its gradient.

    f(lambda W) = f(W), so dL/dW goes as 1/lambda and the effective learning rate is
    lr / ||W||^2 (van Laarhoven 2017)."""

    weight: str
    norm: str
    frobenius: float
    """||W||_F."""


@record
class Invariances:
    """By kind, by norm id, and by weight."""

    kinds: dict[str, KindInvariance] = field(default_factory=dict)
    norms: dict[str, NormInvariance] = field(default_factory=dict)
    centring: tuple[CentringEffect, ...] = ()
    scale_invariant_weights: tuple[ScaleInvariantWeight, ...] = ()
