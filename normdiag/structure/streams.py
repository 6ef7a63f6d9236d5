"""Streams: chains of residual adds, each one's skip operand a copy of the one before it.

A chain may pass norms and scales between two adds. Adds on the branch of another add belong to
that branch: a chain links only adds that share their innermost enclosing add.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from normdiag.graph import Node
from normdiag.structure.flow import Factor, between, step_back
from normdiag.structure.forms import NormFound
from normdiag.structure.residuals import AddFound


@dataclass(frozen=True, slots=True)
class Link:
    """What lies between a value of the stream and the value that it came from."""

    source: Node
    """The add (or the start of the stream) that the value comes from."""
    norms: tuple[NormFound, ...]
    """Norms passed, latest first."""
    factors: tuple[Factor, ...]


@dataclass(slots=True)
class Chain:
    """One stream: its adds in order, and what leads into each."""

    adds: list[AddFound]
    links: list[Link]
    """links[i] leads into adds[i].skip."""
    branch_nodes: dict[int, set[Node]] = field(default_factory=dict)

    @property
    def width(self) -> int:
        return self.adds[-1].node.shape[-1]


class StreamFinder:
    """Builds the chains of a finished forward."""

    def __init__(self, adds: Iterable[AddFound], norms: Iterable[NormFound]) -> None:
        self.adds = [a for a in adds if not a.is_absorbed]
        self.by_node = {a.node: a for a in self.adds}
        self.norm_of = {n.node: n for n in norms}
        self.norm_by_output = {n.output: n for n in norms if n.output is not None}
        self.regions = {a: self._region(a) for a in self.adds}

    def chains(self) -> list[Chain]:
        """All chains, longest first where they compete, in the order of the forward."""
        links = {a: self.trace(a.skip) for a in self.adds}
        enclosing = self._enclosing()
        chains = []
        free = set(self.adds)
        length: dict[AddFound, int] = {}
        before: dict[AddFound, AddFound | None] = {}
        for add in self.adds:  # in topological order
            previous = self.by_node.get(links[add].source)
            if previous is not None and not self._joins(previous, add, enclosing):
                previous = None
            before[add] = previous
            length[add] = 1 + (length[previous] if previous is not None else 0)
        for tail in sorted(self.adds, key=lambda a: (-length[a], a.index)):
            if tail not in free:
                continue
            path: list[AddFound] = []
            at: AddFound | None = tail
            while at is not None and at in free:
                path.append(at)
                free.discard(at)
                at = before[at]
            path.reverse()
            chains.append(Chain(path, [links[a] for a in path]))
        chains.sort(key=lambda c: c.adds[0].index)
        return chains

    def trace(self, node: Node) -> Link:
        """Back through copies, scales and norms to an add or to where the stream begins."""
        norms: list[NormFound] = []
        factors: list[Factor] = []
        while True:
            if node in self.by_node:
                break
            norm = self.norm_by_output.get(node) or self.norm_of.get(node)
            if norm is not None:
                norms.append(norm)
                node = norm.source
                continue
            step = step_back(node)
            if step is None:
                break
            node, factor = step
            if factor is not None:
                factors.append(factor)
        return Link(node, tuple(norms), tuple(factors))

    def _region(self, add: AddFound) -> set[Node]:
        inside: set[Node] = set()
        for branch in add.branches:
            inside |= between(add.root, branch)
        inside.discard(add.root)
        return inside

    def _enclosing(self) -> dict[AddFound, AddFound | None]:
        """The innermost add on whose branch each add lies."""
        inner: dict[AddFound, AddFound | None] = {}
        for add in self.adds:
            holders = [h for h in self.adds if h is not add and add.node in self.regions[h]]
            inner[add] = min(holders, key=lambda h: len(self.regions[h])) if holders else None
        return inner

    def _joins(
        self,
        previous: AddFound,
        add: AddFound,
        enclosing: dict[AddFound, AddFound | None],
    ) -> bool:
        same_width = previous.node.shape[-1] == add.node.shape[-1]
        return same_width and enclosing[previous] is enclosing[add]
