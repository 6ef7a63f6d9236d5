"""The norms that a stream's last value goes through: its last layer's own, and the final one."""

from __future__ import annotations

from normdiag.graph import Node
from normdiag.structure.flow import origin
from normdiag.structure.forms import NormFound, axes_of
from normdiag.structure.layers import Layers
from normdiag.structure.operations import is_contraction
from normdiag.structure.streams import Chain, StreamFinder


def after_last(
    chain: Chain, layers: Layers, finder: StreamFinder
) -> tuple[tuple[NormFound, ...], tuple[NormFound, ...]]:
    """Norms on the stream's last value: those inside the layer, then those outside."""
    at = chain.adds[-1].node
    inside: list[NormFound] = []
    outside: list[NormFound] = []
    lines = {n.node.line for link in chain.links[1:] for n in link.norms}
    on_branches = {n for a in finder.placed for n in finder.regions[a]}
    while True:
        nexts = [
            n for n in finder.norm_of.values() if n not in inside and n not in outside
            and n.index > at.index and n.node not in on_branches and _source_is(n, at)
        ]  # fmt: skip
        if not nexts:
            is_last = all(a.index <= chain.adds[-1].index for a in finder.placed)
            if is_last and not outside:
                outside = _of_mixed_lanes(at, chain.width, layers, finder, on_branches)
            return tuple(inside), tuple(outside)
        norm = nexts[0]
        within = layers.layer_of(norm.node) is not None
        if layers.frames[0] is None:  # no modules: the same line of code is the same norm
            within = norm.node.line in lines
        if within and outside:
            return tuple(inside), tuple(outside)
        (inside if within else outside).append(norm)
        at = norm.output or norm.node


def _of_mixed_lanes(
    value: Node, width: int, layers: Layers, finder: StreamFinder, on_branches: set[Node]
) -> list[NormFound]:
    """The norm that reads a mix of the last value with other ones: lanes, earlier layers."""
    for norm in sorted(finder.norm_of.values(), key=lambda n: n.index):
        if norm.index < value.index or norm.node in on_branches or norm.count != width:
            continue
        if layers.layer_of(norm.node) is None and _is_mixed_from(norm.source, value):
            return [norm]
    return []


def _is_mixed_from(node: Node, value: Node) -> bool:
    """Whether a way without weights leads from `value` to `node`."""
    stack, seen = [node], {node}
    while stack:
        at = stack.pop()
        if at is value:
            return True
        if at.index > value.index and at.is_data and not _is_weighted(at):
            stack += [p for p in at.parents if p not in seen]
            seen.update(at.parents)
    return False


def _is_weighted(node: Node) -> bool:
    return is_contraction(node) and any(not p.is_data for p in node.parents)


def _source_is(norm: NormFound, value: Node) -> bool:
    start = origin(norm.source).node
    while start is not value and _pools(start):
        start = origin(start.parents[0]).node
    return start is value or start is origin(value).node


def _pools(node: Node) -> bool:
    """Whether tokens are averaged or chosen, feature by feature."""
    if node.op in ("mean", "amax", "max"):
        axes = axes_of(node.parents[0], node.args[1] if len(node.args) > 1 else None)
        return -1 not in axes
    return "_pool" in node.op
