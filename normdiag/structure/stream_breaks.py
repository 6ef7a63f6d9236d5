"""Breaks of a stream: what reads the stream as a branch does and is not added to it.

Behind a break the stream is the output of that branch alone. A stretch between two chains is one or
several branches where it contracts as branches of these chains do, weight by weight in shape and
order, and no path around it copies the stream. Where every layer has the break, no add shows how
its branch contracts; then the stretch must repeat.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from normdiag.graph import Graph, Node
from normdiag.structure.algebraic_forms import DetectedNorm
from normdiag.structure.aten_operations import (
    CONVOLUTIONS,
    is_contraction,
    is_score_product,
    mixes_tokens,
)
from normdiag.structure.carried_values import (
    find_ancestors,
    find_descendants,
    is_carried,
    is_passed,
)
from normdiag.structure.dataflow import nodes_between, trace_dependency
from normdiag.structure.residual_adds import is_doubling
from normdiag.structure.stack_structure import StackStructure
from normdiag.structure.stream_doublings import doublings_on_skip

Weights = tuple[tuple[str, tuple[tuple[int, ...], ...]], ...]
"""How a branch contracts: operation and shapes of its weights, in the order of the forward."""

_FEATURE_KINDS = ("layernorm", "rmsnorm", "l2norm", "other")


@dataclass(frozen=True, slots=True)
class DetectedBreak:
    """One branch that takes the place of the stream."""

    contractions: tuple[Node, ...]
    """Its contractions, in the order of the forward."""
    stack: int | None
    """The number of the stack behind it, or of the one before it; None where no add was found."""
    is_doubled: bool = False
    """Whether its output is then added to itself."""
    is_first: bool = False
    """Whether it runs before the first add of its stack."""

    @property
    def ends(self) -> tuple[str, str]:
        """The modules that compute its first and its last contraction."""
        return self.contractions[0].frame.path, self.contractions[-1].frame.path


def find_stream_breaks(
    stacks: Sequence[StackStructure], norms: Sequence[DetectedNorm], graph: Graph
) -> list[DetectedBreak]:
    """Find the breaks of a finished forward, in its order."""
    if not stacks:
        return _find_layers_without_adds(norms)
    breaks: list[DetectedBreak] = []
    gaps: list[_Gap] = []
    for number in range(len(stacks)):
        gap = _find_gap(stacks, number)
        if gap is None:
            continue
        branches = _split_into_branches(gap.contractions, _branch_weights(stacks, gap))
        if _completes_layers(branches, stacks[gap.before], stacks[gap.after]):
            breaks += [DetectedBreak(b, number, gap.is_doubled) for b in branches]
        else:
            gaps.append(gap)
    breaks += _find_repeated_gaps(stacks, gaps, graph)
    for number in range(len(stacks)):
        breaks += _find_breaks_at_ends(stacks, number, graph)
    once = {each.contractions: each for each in reversed(breaks)}
    return sorted(once.values(), key=lambda b: b.contractions[0].index)


@dataclass(frozen=True, slots=True)
class _Gap:
    """The stretch from the end of one chain to the start of the next."""

    before: int
    after: int
    contractions: tuple[Node, ...]
    is_doubled: bool


def _find_gap(stacks: Sequence[StackStructure], after: int) -> _Gap | None:
    """The stretch before a chain that starts with what was computed from another chain's end."""
    start = stacks[after].chain.links[0].source
    shape = stacks[after].chain.adds[0].node.shape
    for before in range(after - 1, -1, -1):
        end = stacks[before].chain.adds[-1].node
        if end.shape != shape or not trace_dependency(start, end)[1]:
            continue
        if is_carried(start, end):
            return None
        contractions = _ordered_contractions(nodes_between(end, start) - {end})
        first = stacks[after].chain.adds[0]
        return _Gap(before, after, contractions, bool(doublings_on_skip(first)))
    return None


def _ordered_contractions(nodes: Iterable[Node]) -> tuple[Node, ...]:
    found = (n for n in nodes if is_contraction(n) and n.output == 0)
    return tuple(sorted(found, key=lambda n: n.index))


def _weights_of(contractions: Sequence[Node]) -> Weights:
    return tuple(
        (node.op, tuple(p.shape for p in node.parents if not p.is_data)) for node in contractions
    )


def _branch_weights(stacks: Sequence[StackStructure], gap: _Gap) -> set[Weights]:
    return {
        _weights_of(_ordered_contractions(region))
        for stack in (stacks[gap.before], stacks[gap.after])
        for region in stack.regions.values()
    }


def _split_into_branches(
    contractions: tuple[Node, ...], known: set[Weights]
) -> list[tuple[Node, ...]]:
    """Split a stretch into branches of known weights; nothing where a part is no such branch."""
    branches = []
    while contractions:
        for size in sorted({len(w) for w in known if w}, reverse=True):
            if _weights_of(contractions[:size]) in known:
                branches.append(contractions[:size])
                contractions = contractions[size:]
                break
        else:
            return []
    return branches


def _completes_layers(
    branches: Sequence[tuple[Node, ...]], before: StackStructure, after: StackStructure
) -> bool:
    """Whether the branches make whole layers of the adds around them, as other layers are."""
    ahead, behind = _weights_by_layer(before), _weights_by_layer(after)
    patterns = Counter((*ahead.values(), *behind.values()))
    usual = max(patterns, key=lambda pattern: (len(pattern), patterns[pattern]))
    last, first = ahead[max(ahead)], behind[min(behind)]
    row = (
        *(() if last == usual else last),
        *map(_weights_of, branches),
        *(() if first == usual else first),
    )
    return bool(branches) and row == usual * (len(row) // len(usual))


def _weights_by_layer(stack: StackStructure) -> dict[int, tuple[Weights, ...]]:
    layers: dict[int, tuple[Weights, ...]] = {}
    for facts in stack.adds:
        weights = _weights_of(_ordered_contractions(stack.regions[facts.add]))
        layers[facts.layer] = (*layers.get(facts.layer, ()), weights)
    return layers


def _find_repeated_gaps(
    stacks: Sequence[StackStructure], gaps: Sequence[_Gap], graph: Graph
) -> list[DetectedBreak]:
    """Find breaks in every layer: the same stretch before several chains of the same branches."""
    groups: dict[tuple[object, ...], list[_Gap]] = {}
    for gap in gaps:
        chains = [
            tuple(_weights_of(_ordered_contractions(r)) for r in stacks[i].regions.values())
            for i in (gap.before, gap.after)
        ]
        if chains[0] == chains[1] and len(set(chains[0])) == len(chains[0]):
            groups.setdefault((_weights_of(gap.contractions), *chains), []).append(gap)
    breaks = []
    for group in groups.values():
        if len(group) < 2 and not group[0].is_doubled:
            continue
        breaks += [DetectedBreak(g.contractions, g.after, g.is_doubled) for g in group]
        first, last, size = group[0], group[-1], len(group[0].contractions)
        start, end = stacks[first.before].chain.links[0], stacks[last.after].chain.adds[-1]
        upstream = _ordered_contractions(find_ancestors(start.source))[-size:]
        downstream = _ordered_contractions(find_descendants(end.node, graph))[:size]
        for stack, part in ((first.before, upstream), (last.after, downstream)):
            if _weights_of(part) == _weights_of(first.contractions):
                breaks.append(DetectedBreak(part, stack, first.is_doubled))
    return breaks


def _find_breaks_at_ends(
    stacks: Sequence[StackStructure], number: int, graph: Graph
) -> list[DetectedBreak]:
    """Find branches that the first or the last layer lacks: they run before or behind all adds.

    Where neither lacks one, a further layer of none of the adds may have run there.
    """
    stack = stacks[number]
    layers, shape = _weights_by_layer(stack), stack.chain.adds[0].node.shape
    patterns = Counter(
        pattern
        for each in stacks
        if each.chain.adds[0].node.shape == shape
        for pattern in _weights_by_layer(each).values()
    )
    usual, times = patterns.most_common(1)[0]
    if times < 2 or len(set(usual)) < len(usual):
        return []
    added = {node for each in stacks for region in each.regions.values() for node in region}
    breaks = []
    first, last = layers[min(layers)], layers[max(layers)]
    lacks_first, lacks_last = usual[: len(usual) - len(first)], usual[len(last) :]
    if (*lacks_first, *first) == usual:
        upstream = _ordered_contractions(find_ancestors(stack.chain.links[0].source))
        part = _cut_end(upstream, lacks_first or usual, is_first=True)
        if lacks_first or (_is_lost_layer(part, added) and not is_passed(part, graph)):
            breaks += _match_end(part, lacks_first or usual, number, is_first=True)
    if (*last, *lacks_last) == usual:
        downstream = _ordered_contractions(find_descendants(stack.chain.adds[-1].node, graph))
        part = _cut_end(downstream, lacks_last or usual, is_first=False)
        if lacks_last or (_is_lost_layer(part, added) and not is_passed(part, graph)):
            breaks += _match_end(part, lacks_last or usual, number, is_first=False)
    return breaks


def _cut_end(
    contractions: tuple[Node, ...], lacks: Sequence[Weights], *, is_first: bool
) -> tuple[Node, ...]:
    size = sum(map(len, lacks))
    return contractions[-size:] if is_first else contractions[:size]


def _is_lost_layer(contractions: tuple[Node, ...], added: set[Node]) -> bool:
    """Whether it mixes tokens, as no head or projection does, and no stack adds it."""
    return any(map(_mixes_as_attention, contractions)) and added.isdisjoint(contractions)


def _match_end(
    part: tuple[Node, ...], lacks: Sequence[Weights], number: int, *, is_first: bool
) -> list[DetectedBreak]:
    branches = _split_into_branches(part, set(lacks))
    return [DetectedBreak(branch, number, is_first=is_first) for branch in branches]


def _find_layers_without_adds(norms: Sequence[DetectedNorm]) -> list[DetectedBreak]:
    """Find what stands between the norms of a model that mixes tokens and has no residual add."""
    on_features = [n for n in norms if n.kind in _FEATURE_KINDS and n.axes == (-1,)]
    if not on_features:
        return []
    shape = Counter(n.source.shape for n in on_features).most_common(1)[0][0]
    trunk = sorted((n for n in on_features if n.source.shape == shape), key=lambda n: n.index)
    breaks = []
    for before, after in pairwise(trunk):
        output = before.output or before.node
        if not trace_dependency(after.source, output)[1] or any(
            is_carried(after.source, value) for value in (output, before.source)
        ):
            continue
        nodes = nodes_between(output, after.source)
        doubled = any(map(is_doubling, nodes))
        breaks.append(DetectedBreak(_ordered_contractions(nodes - {output}), None, doubled))
    mixing = sum(any(map(_mixes_as_attention, b.contractions)) for b in breaks)
    return breaks if mixing > 1 else []


def _mixes_as_attention(node: Node) -> bool:
    """Whether it is attention, or a convolution of each channel alone as a state space has it."""
    if node.op in CONVOLUTIONS:
        is_depthwise = any(len(p.shape) > 2 and p.shape[1] == 1 for p in node.parents[1:])
        return is_depthwise and mixes_tokens(node)
    return is_score_product(node)
