"""What structure was read from one forward, whether it was measured or differentiated."""

from __future__ import annotations

from dataclasses import dataclass, field

from normdiag.graph import Graph
from normdiag.measure.passes.learned_values import LearnedValues
from normdiag.structure.build_architecture import SiteMap, build_architecture
from normdiag.structure.stack_structure import StackStructure
from normdiag.structure.structure_reader import StructureReader


@dataclass(slots=True, kw_only=True)
class ForwardStructure:
    """The graph of a finished forward with its stacks and the ids of its sites."""

    graph: Graph
    reader: StructureReader
    """Read the forward as it ran."""
    learned: LearnedValues
    stacks: list[StackStructure] = field(init=False)
    """In the order of the forward."""
    sites: SiteMap = field(init=False)

    def __post_init__(self) -> None:
        self.stacks = self.reader.build_stacks(self.graph)
        self.sites = build_architecture(
            self.graph, self.reader.detected_norms, self.stacks, self.learned
        )
