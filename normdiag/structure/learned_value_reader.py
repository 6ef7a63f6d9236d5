"""What the description of an architecture asks of learned values."""

from __future__ import annotations

from typing import Protocol

from normdiag.evidence.architecture import Multiplier, Scale, StreamWeights
from normdiag.evidence.gains import Gain
from normdiag.graph import Node
from normdiag.structure.algebraic_forms import DetectedNorm
from normdiag.structure.dataflow import ScaleFactor
from normdiag.structure.stream_weights import LaneWeights


class LearnedValueReader(Protocol):
    """Access to the values of learned nodes; `measure` implements it."""

    def gain_summary(self, norm: DetectedNorm) -> Gain | None:
        """Summarise the effective gain."""

    def bias_rms(self, norm: DetectedNorm) -> float | None:
        """Root mean square of the bias; None without one."""

    def epsilon_value(self, norm: DetectedNorm) -> float | None:
        """Value of epsilon; None without one."""

    def scale_summary(self, factors: tuple[ScaleFactor, ...]) -> Scale:
        """Summarise the product of scale factors."""

    def stream_weights(self, weights: LaneWeights | None) -> StreamWeights | None:
        """Multiply the weights of several streams; None for None."""

    def multiplier_values(self, nodes: tuple[Node, ...]) -> tuple[Multiplier, ...]:
        """Name and size of stored tensors, those of unknown value left out."""
