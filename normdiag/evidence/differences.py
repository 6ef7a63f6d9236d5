"""Differences between two models on the same inputs, per site."""

from __future__ import annotations

from dataclasses import field

from normdiag.evidence.record import record


@record
class RelativeDifference:
    """||a - b|| / ||a|| per token, over the sampled tokens of both models."""

    median: float
    """Infinite where only b is not finite."""
    max: float
    factor: float
    """Median over tokens of the least-squares factor c = <a, b> / <a, a>."""
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
class NormDifference:
    """One norm: of what it receives, and of what it puts out."""

    input: RelativeDifference
    output: RelativeDifference


@record
class VectorDifference:
    """Two gains, or two biases, element by element."""

    max_relative: float
    """max |a - b| / max(|a|, |b|, 1e-3 rms(a)). Infinite where exactly one of them is not
    finite."""
    channel: int
    """The channel of the maximum."""
    a: float
    b: float


@record
class Differences:
    """Keys are ids of the first model."""

    adds: dict[str, AddDifference] = field(default_factory=dict)
    gains: dict[str, VectorDifference] = field(default_factory=dict)
    biases: dict[str, VectorDifference] = field(default_factory=dict)
    norms: dict[str, NormDifference] = field(default_factory=dict)
    outputs: dict[str, RelativeDifference] = field(default_factory=dict)
    """Of the model's output tensors, by name, over all tokens that are not padding."""
