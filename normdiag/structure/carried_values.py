"""What a value was computed from and what carries it on: paths around contractions."""

from __future__ import annotations

from collections.abc import Sequence

from normdiag.graph import Graph, Node
from normdiag.structure.aten_operations import ADDITIONS, is_contraction


def is_carried(node: Node, value: Node) -> bool:
    """Whether a path without contractions leads from `value` to `node`."""
    pending, visited = [node], {node}
    while pending:
        at = pending.pop()
        if at is value:
            return True
        is_open = not is_contraction(at) or "::" in at.op  # an operation not known may add
        if at.index > value.index and at.is_data and is_open:
            pending += [p for p in at.parents if p not in visited]
            visited.update(at.parents)
    return False


def find_ancestors(node: Node) -> set[Node]:
    """The node and all data that it was computed from."""
    visited, pending = {node}, [node]
    while pending:
        new = [p for p in pending.pop().parents if p.is_data and p not in visited]
        visited.update(new)
        pending += new
    return visited


def find_descendants(value: Node, graph: Graph) -> set[Node]:
    """All that was computed from `value`."""
    reached = {value}
    for node in graph.nodes[value.index :]:
        if any(p in reached for p in node.parents):
            reached.add(node)
    return reached - {value}


def is_passed(contractions: Sequence[Node], graph: Graph) -> bool:
    """Whether a path around `contractions` carries what they read to a sum with their output.

    `contractions` are in the order of the forward.
    """
    read, last = find_ancestors(contractions[0]), contractions[-1]
    output = {last}
    for node in graph.nodes[last.index :]:
        if is_contraction(node) or output.isdisjoint(node.parents):
            continue
        output.add(node)
        beside = [p for p in node.parents if p.is_data and p not in output]
        if node.op in ADDITIONS and any(_copies_one_of(read, p) for p in beside):
            return True
    return False


def _copies_one_of(values: set[Node], node: Node) -> bool:
    """Whether a path without contractions leads from one of `values` to `node`."""
    pending, visited = [node], {node}
    while pending:
        at = pending.pop()
        if at in values:
            return True
        if not is_contraction(at):
            pending += [p for p in at.parents if p.is_data and p not in visited]
            visited.update(at.parents)
    return False
