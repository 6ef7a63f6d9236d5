"""Structure of a forward: norms and residual adds while it runs, stacks at its end."""

from __future__ import annotations

from normdiag.graph import Graph, Node
from normdiag.structure.algebraic_forms import DetectedNorm
from normdiag.structure.gated_sums import find_gated_sums
from normdiag.structure.norm_detector import NormDetector
from normdiag.structure.repeated_layers import assign_layers, group_by_module_list
from normdiag.structure.residual_adds import DetectedAdd, ResidualAddDetector
from normdiag.structure.stack_structure import StackStructure, build_stack_structure
from normdiag.structure.stream_chains import StreamFinder


class StructureReader:
    """Detects norms and residual adds in nodes in execution order, then builds the stacks."""

    def __init__(self) -> None:
        self.outside_adds: list[DetectedAdd] = []
        """Residual adds outside every repeated layer."""
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
        finder = StreamFinder(
            graph, self.detected_adds, self.detected_norms, self._adds.mixed_lanes
        )
        gated = find_gated_sums(graph, finder.adds)
        parts = []
        for chain in finder.find_chains():
            rows = group_by_module_list(finder.drop_inner_adds_by_line(chain.adds))
            for row, adds in rows.items():
                if row is None and (len(rows) > 1 or len(adds) == 1):
                    self.outside_adds += [a for a in adds if not a.is_projected]
                elif len(adds) > 1 or (
                    finder.enclosing_add[adds[0]] is None and adds[0] not in gated
                ):
                    parts.append(finder.extract_chain(chain, adds))
        if not parts and self.outside_adds:
            parts = [c for c in finder.find_chains() if finder.enclosing_add[c.adds[0]] is None]
            self.outside_adds = []
        parts.sort(key=lambda c: c.adds[0].index)
        finder.stack_adds = {a for c in parts for a in c.adds}
        return [
            build_stack_structure(c, assign_layers(c.adds, finder.regions), finder) for c in parts
        ]
