"""Additions that compute attention scores or masks: they are no adds to a stream."""

from __future__ import annotations

from collections.abc import Iterable

from normdiag.graph import Node
from normdiag.structure.aten_operations import ATTENTION, is_contraction


def find_score_nodes(nodes: Iterable[Node]) -> set[Node]:
    """Find what is computed of scores and masks.

    A softmax or a mask argument of attention reads them before any contraction does.
    """
    scores: set[Node] = set()
    for node in nodes:
        if node.op in ("_softmax", "softmax", "_safe_softmax"):
            _mark_score_nodes(node.parents[0], scores)
        elif node.op in ATTENTION:
            for operand in (*node.args[3:], *node.kwargs.values()):
                if isinstance(operand, Node) and operand.is_floating:
                    _mark_score_nodes(operand, scores)
    return scores


def _mark_score_nodes(node: Node, scores: set[Node]) -> None:
    stack = [node]
    while stack:
        at = stack.pop()
        if at in scores or not at.is_data or is_contraction(at):
            continue
        scores.add(at)
        stack.extend(p for p in at.parents if p.is_floating)
