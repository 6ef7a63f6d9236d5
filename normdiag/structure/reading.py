"""A forward being read: norms and residual adds online, chains and facts at the end."""

from __future__ import annotations

from normdiag.graph import Node
from normdiag.structure.attachments import StackFacts, attach
from normdiag.structure.forms import NormFound
from normdiag.structure.layers import layers_of
from normdiag.structure.norms import NormFinder
from normdiag.structure.residuals import AddFinder, AddFound
from normdiag.structure.streams import Chain, StreamFinder


class Reading:
    """Reads nodes in the order in which they are made."""

    def __init__(self) -> None:
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

    def stacks(self) -> list[StackFacts]:
        """The stacks of the finished forward."""
        finder = StreamFinder(self.adds, self.norms)
        stacks = []
        for chain in finder.chains():
            if self._is_stream(chain, finder):
                layers = layers_of(chain.adds, finder.regions)
                stacks.append(attach(chain, layers, finder))
        return stacks

    @staticmethod
    def _is_stream(chain: Chain, finder: StreamFinder) -> bool:
        """A lone add on the branch of another is a feed-through of that branch."""
        if len(chain.adds) > 1:
            return True
        add = chain.adds[0]
        return not any(add.node in r for a, r in finder.regions.items() if a is not add)
