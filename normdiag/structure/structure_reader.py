"""Structure of a forward: norms and residual adds while it runs, stacks at its end."""

from __future__ import annotations

from normdiag.graph import Graph, Node
from normdiag.structure.algebraic_forms import DetectedNorm
from normdiag.structure.continued_sums import part_continued_sums
from normdiag.structure.gated_sums import find_gated_sums
from normdiag.structure.norm_detector import NormDetector
from normdiag.structure.residual_adds import DetectedAdd, ResidualAddDetector
from normdiag.structure.single_adds import LoneAdd, attach_single_adds
from normdiag.structure.stack_parts import ChainSplitter
from normdiag.structure.stack_structure import StackStructure, build_stack_structure
from normdiag.structure.stream_chains import StreamFinder


class StructureReader:
    """Detects norms and residual adds in nodes in execution order, then builds the stacks."""

    def __init__(self) -> None:
        self.outside_adds: list[DetectedAdd] = []
        """Residual adds that are of no stack."""
        self._norms = NormDetector()
        self._adds = ResidualAddDetector()

    @property
    def detected_norms(self) -> list[DetectedNorm]:
        return self._norms.norms

    @property
    def detected_adds(self) -> list[DetectedAdd]:
        return self._adds.adds

    @property
    def plain_additions(self) -> list[Node]:
        return self._adds.plain_additions

    def detect_norm(self, node: Node) -> DetectedNorm | None:
        """Return the norm that `node` completes or extends."""
        return self._norms.detect_norm(node)

    def detect_add(self, node: Node) -> DetectedAdd | None:
        """Return the residual add that `node` computes."""
        return self._adds.detect_add(node)

    def build_stacks(self, graph: Graph) -> list[StackStructure]:
        """Build the stacks of the finished forward, in its order."""
        self._norms.complete_norms(graph)
        part_continued_sums(self.detected_adds)
        finder = StreamFinder(
            graph, self.detected_adds, self.detected_norms, self._adds.mixed_lanes
        )
        chains = finder.find_chains()
        splitter = ChainSplitter(finder, find_gated_sums(graph, finder.adds))
        parts = [p for n, chain in enumerate(chains) for p in splitter.split_chain(chain, n)]
        if not parts and splitter.lone_adds:
            parts = splitter.build_whole_chains(chains)
        parts.sort(key=lambda part: part.chain.adds[0].index)
        finder.stack_adds = {a for part in parts for a in part.chain.adds}
        finder.lone_adds = {lone.add for lone in splitter.lone_adds}
        stacks = [build_stack_structure(part.chain, part.layers, finder) for part in parts]
        numbers = [part.number for part in parts]
        of_no_chain = len(chains)
        side = [LoneAdd(a, a.node.frame.path, of_no_chain) for a in finder.side_sums]
        outside = attach_single_adds([*splitter.lone_adds, *side], stacks, numbers, finder)
        known = {a for a in outside if a.is_projected} | {*finder.side_sums}
        self.outside_adds = [add for add in outside if add not in known]
        return stacks
