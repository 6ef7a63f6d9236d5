"""Norms on the last value of a stream: stream norms of the last layer, and the final norm."""

from __future__ import annotations

from math import prod

from normdiag.graph import Node
from normdiag.structure.algebraic_forms import DetectedNorm
from normdiag.structure.aten_operations import is_contraction
from normdiag.structure.dataflow import joined_tokens, trace_origin
from normdiag.structure.layer_assignment import LayerAssignment
from normdiag.structure.module_tree import parent_path
from normdiag.structure.stream_chains import StreamChain, StreamFinder
from normdiag.structure.token_pooling import pools_tokens


def find_final_norms(
    chain: StreamChain, layers: LayerAssignment, finder: StreamFinder
) -> tuple[tuple[DetectedNorm, ...], tuple[DetectedNorm, ...]]:
    """Return the norms on the stream's last value inside the last layer, and those after it."""
    at = chain.adds[-1].node
    inside: list[DetectedNorm] = []
    outside: list[DetectedNorm] = []
    usual = {_norm_place(n) for link in chain.links[1:] for n in link.norms}
    are_behind_layers = not layers.has_scopes or has_norms_behind_layers(chain, layers)
    on_branches = {n for a in finder.stack_adds | finder.lone_adds for n in finder.regions[a]}
    # a norm that another stream's branch reads as well is still on this stream
    on_branches -= {
        n.node for n in finder.norm_of.values() if finder.is_read_outside(n, on_branches)
    }
    while True:
        nexts = [
            n for n in finder.norm_of.values() if n not in inside and n not in outside
            and n.index > at.index and n.node not in on_branches
            and not _merges_tokens(n, chain.width) and _normalises_value(n, at)
        ]  # fmt: skip
        if not nexts:
            is_last = all(a.index <= chain.adds[-1].index for a in finder.stack_adds)
            if is_last and not outside:
                outside = _find_norm_of_mixture(at, chain.width, layers, finder, on_branches)
            return tuple(inside), tuple(outside)
        norm = nexts[0]
        within = layers.find_layer(norm.node) is not None
        if are_behind_layers:  # of the parent: the same list and line of code is the same norm
            within = within or _norm_place(norm) in usual
        if within and outside:
            return tuple(inside), tuple(outside)
        (inside if within else outside).append(norm)
        at = norm.output or norm.node


def has_norms_behind_layers(chain: StreamChain, layers: LayerAssignment) -> bool:
    """Whether the norms on the stream behind most layers are no part of any layer."""
    starts = layers.find_starts()
    outside = [i for i in starts if chain.links[i].norms and not _norms_of_layers(chain, layers, i)]
    return 2 * len(outside) > len(starts)


def find_norms_between_layers(chain: StreamChain, layers: LayerAssignment) -> list[int]:
    """Return the first adds of layers whose skip passes a norm of no layer."""
    return [
        i
        for i in layers.find_starts()
        if len(_norms_of_layers(chain, layers, i)) < len(chain.links[i].norms)
    ]


def _norms_of_layers(chain: StreamChain, layers: LayerAssignment, link: int) -> list[DetectedNorm]:
    return [n for n in chain.links[link].norms if layers.find_layer(n.node) is not None]


def _norm_place(norm: DetectedNorm) -> tuple[str, str | None]:
    """The list in which the norm stands, and its line of code."""
    return parent_path(norm.node.frame.path), norm.node.line


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


def _merges_tokens(norm: DetectedNorm, width: int) -> bool:
    """Whether a row of the norm holds several tokens of the stream, as patches that are merged."""
    if norm.kind == "batchnorm":
        return norm.count > width
    return len(norm.axes) == 1 and norm.source.shape[norm.axes[0]] > width


def _normalises_value(norm: DetectedNorm, value: Node) -> bool:
    """Whether the norm reads the value as it is, pooled, or whole beside tokens joined to it."""
    ends = (value, trace_origin(value).node)
    pending = [norm.source]
    while pending:
        start = trace_origin(pending.pop()).node
        while start not in ends and pools_tokens(start):
            start = trace_origin(start.parents[0]).node
        if start in ends:
            return True
        pending += [p for p in joined_tokens(start) if prod(p.shape) == prod(value.shape)]
    return False
