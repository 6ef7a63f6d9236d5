"""What two models make of the same inputs: how far apart their values are, site by site."""

from __future__ import annotations

from dataclasses import field

from normdiag.evidence.record import record


@record
class RelativeDifference:
    """||a - b|| / ||a|| per token, over the tokens that were kept of both models."""

    median: float
    """Infinite where b is not finite and a is."""
    max: float
    factor: float
    """Median over tokens of c, where c a is nearest to b: <a, b> / <a, a>."""
    after_scaling: float
    """Median over tokens of ||c a - b|| / ||c a||, with that median as c."""


@record
class AddDifference:
    """One residual add y = x + u."""

    tokens: int
    skip: RelativeDifference
    branch: RelativeDifference
    out: RelativeDifference


@record
class VectorDifference:
    """Two gains, or two biases, element by element."""

    max_relative: float
    """max |a - b| / max(|a|, |b|, 1e-3 rms(a)). Infinite where just one of them is not finite."""
    channel: int
    """Where that is."""
    a: float
    b: float


@record
class Differences:
    """Keys are ids of the first model."""

    adds: dict[str, AddDifference] = field(default_factory=dict)
    gains: dict[str, VectorDifference] = field(default_factory=dict)
    biases: dict[str, VectorDifference] = field(default_factory=dict)
