"""A forward being read: norms and residual adds online, chains and facts at the end."""

from __future__ import annotations

from normdiag.graph import Graph, Node
from normdiag.structure.attachments import StackFacts, attach
from normdiag.structure.forms import NormFound
from normdiag.structure.layers import layers_of, repeated
from normdiag.structure.norms import NormFinder
from normdiag.structure.residuals import AddFinder, AddFound
from normdiag.structure.streams import StreamFinder


class Reading:
    """Reads nodes in the order in which they are made."""

    def __init__(self) -> None:
        self.outside: list[AddFound] = []
        """Residual adds that run in no repeated layer."""
        self._norms = NormFinder()
        self._adds = AddFinder()

    @property
    def norms(self) -> list[NormFound]:
        return self._norms.norms

    @property
    def adds(self) -> list[AddFound]:
        return self._adds.adds

    @property
    def plain_additions(self) -> list[Node]:
        return self._adds.plain

    def norm(self, node: Node) -> NormFound | None:
        """The norm that `node` completes or extends."""
        return self._norms.read(node)

    def add(self, node: Node) -> AddFound | None:
        """The residual add that `node` is."""
        return self._adds.read(node)

    def stacks(self, graph: Graph) -> list[StackFacts]:
        """The stacks of the finished forward, in its order."""
        finder = StreamFinder(graph, self.adds, self.norms, self._adds.mixed)
        parts = []
        for chain in finder.chains():
            rows = repeated(finder.without_inner(chain.adds))
            for row, adds in rows.items():
                if row is None and (len(rows) > 1 or len(adds) == 1):
                    self.outside += adds
                elif len(adds) > 1 or finder.enclosing[adds[0]] is None:
                    parts.append(finder.part(chain, adds))
        if not parts and self.outside:
            parts = [c for c in finder.chains() if finder.enclosing[c.adds[0]] is None]
            self.outside = []
        parts.sort(key=lambda c: c.adds[0].index)
        finder.placed = {a for c in parts for a in c.adds}
        return [attach(c, layers_of(c.adds, finder.regions), finder) for c in parts]
