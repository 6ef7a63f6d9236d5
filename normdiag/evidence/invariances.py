"""What the norms of a model are blind to, and what they should be blind to and are not."""

from __future__ import annotations

from dataclasses import field

from normdiag.evidence.record import record


@record
class KindInvariance:
    """One kind of norm, at its first site: relative changes of the output; 0 is invariant."""

    norm: str
    """The norm that was probed."""
    scale: float
    """x -> 2 x."""
    shift: float
    """x -> x + the same constant in every feature, one standard deviation."""
    batch: float
    """Other sequences in the batch replaced."""
    padding: float
    """Padding added beside the tokens."""
    mode: float
    """Train mode against eval mode."""
    single: float | None
    """Train mode at batch size 1: the share of the output's energy that is left; null where the
    kind takes no statistic over the batch."""


@record
class ScaleFree:
    """A weight that feeds only norms: its scale changes nothing but its gradient.

    f(lambda W) = f(W), so dL/dW goes as 1/lambda and the effective learning rate is
    lr / ||W||^2 (van Laarhoven 2017)."""

    weight: str
    norm: str
    frobenius: float
    """||W||_F."""


@record
class Invariances:
    """By kind, and by weight."""

    kinds: dict[str, KindInvariance] = field(default_factory=dict)
    scale_free: tuple[ScaleFree, ...] = ()
