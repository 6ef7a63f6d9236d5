"""Contractions on a branch that read the stream past the norms at the branch's start."""

from __future__ import annotations

from collections.abc import Iterable

from normdiag.graph import Node
from normdiag.structure.algebraic_forms import DetectedNorm
from normdiag.structure.aten_operations import (
    CASTS,
    CONVOLUTIONS,
    DROPOUT,
    MATRIX_PRODUCTS,
    VIEWS,
    is_contraction,
)
from normdiag.structure.residual_adds import DetectedAdd

_COPYING = frozenset({"add", "sub", "mul", "div", "cat", *VIEWS, *CASTS, *DROPOUT})
"""Operations whose result holds x token by token: positions added, gates, views."""
_GATES = frozenset({"sigmoid", "hardsigmoid", "_softmax", "softmax", "topk"})


def find_raw_readers(
    add: DetectedAdd, region: set[Node], norms: Iterable[DetectedNorm]
) -> tuple[Node, ...]:
    """Find the products of x with weights that none of the branch's `norms` precedes."""
    # what makes the statistic of a norm leads on through the norm alone
    normed = {node for norm in norms for node in (norm.node, norm.output)}
    reached, readers = {add.root}, []
    for node in sorted(region, key=lambda n: n.index):
        if node in normed or not any(p in reached for p in node.parents):
            continue
        if _has_weights(node):
            readers.append(node)
        elif node.op in _COPYING:
            reached.add(node)
    return tuple(n for n in readers if not _computes_gate(n, region))


def _computes_gate(reader: Node, region: set[Node]) -> bool:
    """Whether its result is a gate or a choice of experts: a sigmoid or a softmax reads it."""
    reached = {reader}
    for node in sorted((n for n in region if n.index > reader.index), key=lambda n: n.index):
        if not any(p in reached for p in node.parents):
            continue
        if node.op in _GATES:
            return True
        if node.op in _COPYING:
            reached.add(node)
    return False


def _has_weights(node: Node) -> bool:
    if not is_contraction(node) or node.op not in MATRIX_PRODUCTS | CONVOLUTIONS:
        return False
    return any(not p.is_data and len(p.shape) > 1 for p in node.parents)
