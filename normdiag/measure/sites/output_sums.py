"""Sums of the model's outputs, forward by forward, so that saved reports can be compared."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from normdiag.evidence.weights import TensorFingerprint
from normdiag.measure.statistics.earliest_pass import SequenceNumbers


@dataclass(slots=True)
class OutputSums:
    """Accumulator of what each forward put out."""

    passes: dict[SequenceNumbers, dict[str, TensorFingerprint]] = field(default_factory=dict)
    """Numbers of the sequences of a forward -> name of an output -> its sums."""

    def update(self, outputs: Mapping[str, TensorFingerprint], sequences: SequenceNumbers) -> None:
        """Add the outputs of one forward."""
        self.passes[tuple(sequences)] = dict(outputs)

    def merge(self, other: OutputSums) -> None:
        """Add the forwards of `other`."""
        self.passes |= other.passes

    def compute(self) -> dict[str, tuple[TensorFingerprint, ...]]:
        """Name -> sums per forward in the order of the inputs, of outputs that each one has."""
        ordered = [self.passes[sequences] for sequences in sorted(self.passes)]
        first = ordered[0] if ordered else {}
        names = [name for name in first if all(name in each for each in ordered)]
        return {name: tuple(each[name] for each in ordered) for name in names}
