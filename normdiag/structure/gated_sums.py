"""Residual adds inside a gated unit: the sum goes on through a product with an activation alone.

A state space layer adds its input to its scan, y = scan(u) + D u, and multiplies the sum by a gate
that is computed beside it. The sum is a part of that layer and no value of a stream.
"""

from __future__ import annotations

from collections.abc import Iterable

from normdiag.graph import Graph, Node
from normdiag.structure.aten_operations import CASTS, VIEWS
from normdiag.structure.dataflow import step_back, trace_dependency
from normdiag.structure.residual_adds import DetectedAdd


def find_gated_sums(graph: Graph, adds: Iterable[DetectedAdd]) -> set[DetectedAdd]:
    """Find the adds whose sum is read by products with a gate alone."""
    nodes = {add.node: add for add in adds}
    readers: dict[Node, list[Node]] = {}
    passed = dict.fromkeys(nodes)
    for node in graph:
        for parent in node.parents:
            if parent in passed:
                readers.setdefault(parent, []).append(node)
                if node.op in VIEWS or node.op in CASTS:
                    passed[node] = None
    return {add for node, add in nodes.items() if _is_gated(node, readers)}


def _is_gated(node: Node, readers: dict[Node, list[Node]]) -> bool:
    """Whether every way on leads through a gate."""
    found = readers.get(node, ())
    return bool(found) and all(
        _is_gate_product(r, node) or ((r.op in VIEWS or r.op in CASTS) and _is_gated(r, readers))
        for r in found
    )


def _is_gate_product(node: Node, value: Node) -> bool:
    if node.op != "mul" or step_back(node) is not None or len(node.parents) != 2:
        return False
    gate = node.parents[1] if node.parents[0] is value else node.parents[0]
    is_activation = gate.is_data and gate.is_floating and gate.shape == node.shape
    return is_activation and node.form is None and not trace_dependency(gate, value)[0]
