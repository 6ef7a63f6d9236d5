"""Norms on the last value of a stream: stream norms of the last layer, and the final norm."""

from __future__ import annotations

from normdiag.graph import Node
from normdiag.structure.algebraic_forms import DetectedNorm, reduced_axes
from normdiag.structure.aten_operations import is_contraction
from normdiag.structure.dataflow import trace_origin
from normdiag.structure.repeated_layers import LayerAssignment
from normdiag.structure.stream_chains import StreamChain, StreamFinder


def find_final_norms(
    chain: StreamChain, layers: LayerAssignment, finder: StreamFinder
) -> tuple[tuple[DetectedNorm, ...], tuple[DetectedNorm, ...]]:
    """Return the norms on the stream's last value inside the last layer, and those after it."""
    at = chain.adds[-1].node
    inside: list[DetectedNorm] = []
    outside: list[DetectedNorm] = []
    lines = {n.node.line for link in chain.links[1:] for n in link.norms}
    on_branches = {n for a in finder.stack_adds for n in finder.regions[a]}
    # a norm that another stream's branch reads as well is still on this stream
    on_branches -= {
        n.node for n in finder.norm_of.values() if finder.is_read_outside(n, on_branches)
    }
    while True:
        nexts = [
            n for n in finder.norm_of.values() if n not in inside and n not in outside
            and n.index > at.index and n.node not in on_branches and _normalises_value(n, at)
        ]  # fmt: skip
        if not nexts:
            is_last = all(a.index <= chain.adds[-1].index for a in finder.stack_adds)
            if is_last and not outside:
                outside = _find_norm_of_mixture(at, chain.width, layers, finder, on_branches)
            return tuple(inside), tuple(outside)
        norm = nexts[0]
        within = layers.find_layer(norm.node) is not None
        if layers.frames[0] is None:  # no modules: the same line of code is the same norm
            within = norm.node.line in lines
        if within and outside:
            return tuple(inside), tuple(outside)
        (inside if within else outside).append(norm)
        at = norm.output or norm.node


def _find_norm_of_mixture(
    value: Node, width: int, layers: LayerAssignment, finder: StreamFinder, on_branches: set[Node]
) -> list[DetectedNorm]:
    """Find the norm that reads a mixture of the last value with lanes or earlier layers."""
    for norm in sorted(finder.norm_of.values(), key=lambda n: n.index):
        if norm.index < value.index or norm.node in on_branches or norm.count % width:
            continue  # a whole multiple of the width: two streams are concatenated
        if layers.find_layer(norm.node) is None and _reaches_unweighted(norm.source, value):
            return [norm]
    return []


def _reaches_unweighted(node: Node, value: Node) -> bool:
    """Whether a path without weights leads from `value` to `node`."""
    pending, visited = [node], {node}
    while pending:
        at = pending.pop()
        if at is value:
            return True
        if at.index > value.index and at.is_data and not _is_weighted(at):
            pending += [p for p in at.parents if p not in visited]
            visited.update(at.parents)
    return False


def _is_weighted(node: Node) -> bool:
    return is_contraction(node) and any(not p.is_data for p in node.parents)


def _normalises_value(norm: DetectedNorm, value: Node) -> bool:
    start = trace_origin(norm.source).node
    while start is not value and _pools_tokens(start):
        start = trace_origin(start.parents[0]).node
    return start is value or start is trace_origin(value).node


def _pools_tokens(node: Node) -> bool:
    """Whether tokens are pooled, feature by feature."""
    if node.op in ("mean", "amax", "max"):
        axes = reduced_axes(node.parents[0], node.args[1] if len(node.args) > 1 else None)
        return -1 not in axes
    return "_pool" in node.op
