"""What lies on a stream between two of its adds."""

from __future__ import annotations

from dataclasses import dataclass

from normdiag.graph import Node
from normdiag.structure.algebraic_forms import DetectedNorm
from normdiag.structure.dataflow import ScaleFactor
from normdiag.structure.residual_adds import DetectedAdd


@dataclass(frozen=True, slots=True)
class StreamLink:
    """Norms and scales between a skip operand and the add that it comes from."""

    source: Node
    """The result of an add, or the start of the stream."""
    norms: tuple[DetectedNorm, ...]
    """Norms passed, last first."""
    factors: tuple[ScaleFactor, ...]
    passed_adds: tuple[DetectedAdd, ...] = ()
    """Adds passed that belong to no stack of this chain, last first."""
    joins: tuple[Node, ...] = ()
    """What else was passed, last first: sums and products of the stream with other data, such as a
    condition, and tokens cut off or joined again."""

    @property
    def is_altered(self) -> bool:
        """Whether an activation was added on the way, or tokens were cut off and joined again."""
        return any(all(p.is_data for p in join.parents) for join in self.joins)
