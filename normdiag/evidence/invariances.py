"""Invariances of norms: scale, shift, batch, padding, mode."""

from __future__ import annotations

from dataclasses import field
from typing import Literal

from normdiag.evidence.record import record
from normdiag.evidence.statistics import MedianMax


@record
class KindInvariance:
    """Invariances of one kind of norm at its first site: ||change|| / ||output|| (without bias)
    under each transformation of its recorded input; 0: invariant, null: not defined."""

    norm: str
    """The id of the norm that was run."""
    method: Literal["module", "formula"]
    """Whether the norm's module was run, or its formula from the graph."""
    scale: float
    """x -> 2 x."""
    shift: float
    """x -> x + the same constant in every feature, one standard deviation."""
    batch: float | None
    """Train mode: other sequences in the batch replaced."""
    padding: float | None
    """Train mode: as many padded positions (zeros) as there are tokens added behind them."""
    train_vs_eval: float | None
    """Train mode vs eval mode."""
    batch_size_one: float | None
    """Train mode at batch size 1: the share of the output's energy that is left; null where the
    kind takes no statistic over the batch."""


@record
class NormInvariance:
    """One norm in closed form, from its eps_share e = eps / (m2 + eps), per token."""

    scale: MedianMax
    """||N(2x) - N(x)|| / ||N(x)||, without bias: 2 / sqrt(4 - 3 e) - 1; 1 in the limit where
    epsilon dominates."""
    radial: MedianMax
    """<x, dL/dx> / <N(x) - bias, dL/dN>: e. At 0 the gradient is orthogonal to the input."""


@record
class CentringEffect:
    """Mean energy of norm inputs times H (chance level 1), which centring removes; over `norms`
    norms. What the other kind would change is in `norm_swap`."""

    kind: Literal["layernorm", "rmsnorm"]
    norms: int
    median: float
    max: float
    norm: str
    """The id of the norm with the maximum."""
    share: float
    """The mean energy at that norm: the share of ||x||^2 that centring removes."""


@record
class ScaleInvariantWeight:
    """A weight that feeds only norms: its scale does not change the output, only its gradient.

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
