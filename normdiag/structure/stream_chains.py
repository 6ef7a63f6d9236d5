"""Residual streams as chains of adds: the skip operand of each copies the result of the previous.

A chain may pass norms and scales between two adds. Adds on the branch of another add belong to
that branch: a chain links only adds with the same innermost enclosing add.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass

from normdiag.graph import Node
from normdiag.structure.activations import find_activated_value
from normdiag.structure.algebraic_forms import DetectedNorm
from normdiag.structure.dataflow import (
    ScaleFactor,
    joined_tokens,
    nodes_between,
    step_back,
    trace_dependency,
)
from normdiag.structure.enclosing_adds import find_enclosing_adds
from normdiag.structure.feature_axis import stream_axis
from normdiag.structure.gates import step_past_gate
from normdiag.structure.mirrored_sums import find_mirrored_sums
from normdiag.structure.mixed_operands import find_mixed_operands
from normdiag.structure.residual_adds import DetectedAdd, addition_operands
from normdiag.structure.score_nodes import find_score_nodes
from normdiag.structure.stream_joins import (
    find_merged_values,
    find_norm_readers,
    is_modulated,
    modulation_operands,
)
from normdiag.structure.stream_links import StreamLink


@dataclass(slots=True)
class StreamChain:
    """One stream: its adds in order, and the link into each."""

    adds: list[DetectedAdd]
    links: list[StreamLink]
    """links[i] leads into adds[i].skip."""

    @property
    def width(self) -> int:
        return stream_width(self.adds[-1])


def stream_width(add: DetectedAdd) -> int:
    """Number of features of the stream at one add."""
    return add.node.shape[stream_axis(add)]


class StreamFinder:
    """Builds the chains of a finished forward."""

    def __init__(
        self,
        nodes: Iterable[Node],
        adds: Iterable[DetectedAdd],
        norms: Iterable[DetectedNorm],
        mixed: Mapping[Node, Node],
    ) -> None:
        self._mixed = mixed
        norms = list(norms)
        self.norm_of = {n.node: n for n in norms}
        self.norm_by_output = {n.output: n for n in norms if n.output is not None}
        self._norm_readers = find_norm_readers(nodes, norms)
        self._join_operands: dict[Node, Node | None] = {}
        self.adds: list[DetectedAdd] = []
        self.by_node: dict[Node, DetectedAdd] = {}
        scores = find_score_nodes(nodes)
        adds = [add for add in adds if not add.is_continued and add.node not in scores]
        mirrored = find_mirrored_sums(adds)
        for add in adds:
            if add not in mirrored and not self._is_injection(add):
                self.adds.append(add)
                self.by_node[add.node] = add
                self._join_operands.clear()
        self.regions = {a: self._branch_nodes(a) for a in self.adds}
        self._drop_mixed_operands()
        self.enclosing_add = self._find_enclosing_adds()
        self._drop_inner_adds()
        self.side_sums = [a for a in adds if a in mirrored and len(a.branches) > 1]
        """Ends of sums beside a stream that collect its branches."""
        self.regions |= {a: self._branch_nodes(a) for a in self.side_sums}
        self.stack_adds: set[DetectedAdd] = set()
        """Adds that belong to a stack."""
        self.lone_adds: set[DetectedAdd] = set()
        """Adds on a stream outside of its layers."""

    def find_chains(self) -> list[StreamChain]:
        """Find all chains in the order of the forward; longer chains take shared adds first."""
        links = {a: self._trace_skip(a) for a in self.adds}
        length: dict[DetectedAdd, int] = {}
        before: dict[DetectedAdd, DetectedAdd | None] = {}
        for add in self.adds:  # in topological order
            previous = self.by_node.get(links[add].source)
            if previous is not None and not self._continues_chain(previous, add):
                previous = None
            before[add] = previous
            length[add] = 1 + (length[previous] if previous is not None else 0)
        free = set(self.adds)
        chains = []
        for tail in sorted(self.adds, key=lambda a: (-length[a], a.index)):
            path: list[DetectedAdd] = []
            at: DetectedAdd | None = tail
            while at is not None and at in free:
                path.append(at)
                free.discard(at)
                at = before[at]
            if path:
                path.reverse()
                chains.append(StreamChain(path, [links[a] for a in path]))
        return sorted(chains, key=lambda c: c.adds[0].index)

    def extract_chain(self, chain: StreamChain, adds: list[DetectedAdd]) -> StreamChain:
        """Extract the chain of `adds`: links pass through the skips of the other adds."""
        kept_nodes = {a.node for a in adds}
        links = []
        for add in adds:
            link = self._trace_skip(add)
            norms, factors, passed = [*link.norms], [*link.factors], []
            joins = [*link.joins]
            while link.source in self.by_node and link.source not in kept_nodes:
                passed.append(self.by_node[link.source])
                link = self._trace_skip(passed[-1])
                norms += link.norms
                factors += link.factors
                joins += link.joins
            links.append(
                StreamLink(link.source, tuple(norms), tuple(factors), tuple(passed), tuple(joins))
            )
        return StreamChain(adds, links)

    def is_read_outside(self, norm: DetectedNorm, region: Container[Node]) -> bool:
        """Whether what a norm computes is read outside a region as well."""
        return any(reader not in region for reader in self._norm_readers.get(norm, ()))

    def _trace_skip(self, add: DetectedAdd) -> StreamLink:
        """Trace back the skip of an add; behind a projection the stream begins anew.

        One of the stream and an earlier value of it together is passed.
        """
        if add.is_projected:
            return StreamLink(add.skip, (), ())
        link = self.trace_link(add.skip)
        merged = find_merged_values(link.source)
        latest = None if merged is None else self._latest_value(merged.parents)
        if merged is None or latest is None:
            return link
        before = self.trace_link(latest)
        return StreamLink(
            before.source,
            link.norms + before.norms,
            link.factors + before.factors,
            joins=(*link.joins, merged, *before.joins),
        )

    def trace_link(self, node: Node) -> StreamLink:
        """Trace back through copies, scales and norms to an add or to the start of the stream."""
        norms: list[DetectedNorm] = []
        factors: list[ScaleFactor] = []
        joins: list[Node] = []
        while node not in self.by_node:
            norm = self.norm_by_output.get(node) or self.norm_of.get(node)
            if norm is not None:
                norms.append(norm)
                node = norm.source
                continue
            if node in self._mixed:
                node = self._mixed[node]
                continue
            step = step_back(node)
            if step is None:
                gated = step_past_gate(node)
                joined = gated[0] if gated else self._join_operand(node)
                joined = joined or self._latest_value(joined_tokens(node))
                if joined is None:
                    break
                joins.append(node)
                node = joined
                continue
            node, factor = step
            if factor is not None:
                factors.append(factor)
        return StreamLink(node, tuple(norms), tuple(factors), joins=tuple(joins))

    def _is_injection(self, add: DetectedAdd) -> bool:
        """Whether an older value is added to the stream (position embedding, earlier layer).

        What looks like the branch is then the stream itself, which began elsewhere, or began with
        that older value and is no function of it.
        """
        for branch in add.branches:
            link = self.trace_link(branch)
            if link.source not in self.by_node:
                return False
            *_, start = self._earlier_values(link.source)
            is_derived, is_contracted = trace_dependency(start, add.root)
            if is_contracted or (is_derived and link.norms):
                return False
        return True

    def _earlier_values(self, value: Node) -> Iterator[Node]:
        """A value of a stream and those before it, back to its start."""
        yield value
        while value in self.by_node:
            value = self._trace_skip(self.by_node[value]).source
            yield value

    def _latest_value(self, values: Iterable[Node]) -> Node | None:
        """The latest of the values of one stream that are concatenated, learned ones aside."""
        sources = {p: self.trace_link(p).source for p in values}
        latest = max(sources, key=lambda p: sources[p].index, default=None)
        if latest is None:
            return None
        earlier = list(self._earlier_values(sources[latest]))
        others = {source for source in sources.values() if source.origins} - {*earlier}
        # tokens can be cut off before the first add as well: the stream begins with the others
        return (
            latest
            if all(trace_dependency(earlier[-1], o) == (True, False) for o in others)
            else None
        )

    def _join_operand(self, node: Node) -> Node | None:
        """The stream operand of a sum or product that is no residual add.

        The other one is another stream, a bias, or data that modulates the stream. An activation on
        the stream is passed as well.
        """
        if node not in self._join_operands:
            if (activated := find_activated_value(node)) is not None:  # relu(x + F(x))
                pair: tuple[Node, ...] = (activated,)
            else:
                pair = addition_operands(node) or modulation_operands(node)
            operands = pair[:1] if node.op == "sub" else pair
            links = {o: self.trace_link(o) for o in operands}
            carriers = [o for o in operands if self._carries_stream(node, links[o])]
            if node.op == "mul" and not is_modulated(
                carriers, operands, {o: link.source for o, link in links.items()}
            ):
                carriers = []
            at = {o: links[o].source.index for o in carriers}
            self._join_operands[node] = max(carriers, key=lambda o: at[o], default=None)
        return self._join_operands[node]

    def _drop_mixed_operands(self) -> None:
        previous = {a: self.by_node.get(self.trace_link(a.skip).source) for a in self.adds}
        dropped = find_mixed_operands(self.adds, previous, self.regions)
        if dropped:
            self.adds = [a for a in self.adds if a not in dropped]
            for add in dropped:
                del self.by_node[add.node], self.regions[add]
            self._join_operands.clear()

    def _carries_stream(self, join: Node, link: StreamLink) -> bool:
        """Whether an operand is a stream's value, or the modulated norm of its first value."""
        is_modulated = join.op == "mul" or any(n.op == "mul" for n in link.joins)
        return link.source in self.by_node or (bool(link.norms) and is_modulated)

    def _branch_nodes(self, add: DetectedAdd) -> set[Node]:
        inside: set[Node] = set()
        for branch in add.branches:
            inside |= nodes_between(add.root, branch)
        inside.discard(add.root)
        return inside

    def _drop_inner_adds(self) -> None:
        """Leave out sums with a gate, a projection or a part on the branch of another add.

        They are the state of a recurrent cell, or parts of one branch.
        """
        dropped = {
            add
            for add in self.adds
            if (add.is_gated or add.is_projected or add.is_part)
            and self.enclosing_add[add] is not None
        }
        self.adds = [add for add in self.adds if add not in dropped]
        for add in dropped:
            del self.by_node[add.node], self.regions[add], self.enclosing_add[add]
        if dropped:
            self._join_operands.clear()
            self.enclosing_add = self._find_enclosing_adds()

    def _find_enclosing_adds(self) -> dict[DetectedAdd, DetectedAdd | None]:
        sources = {a: self._trace_skip(a).source for a in self.adds}
        return find_enclosing_adds(self.regions, sources)

    def _continues_chain(self, previous: DetectedAdd, add: DetectedAdd) -> bool:
        is_compatible = previous.node.shape == add.node.shape or stream_width(
            previous
        ) == stream_width(add)
        return is_compatible and self.enclosing_add[previous] is self.enclosing_add[add]
