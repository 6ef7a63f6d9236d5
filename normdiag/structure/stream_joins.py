"""Products of a stream with other data on its way, and what reads the norms on it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from normdiag.graph import Node
from normdiag.structure.algebraic_forms import DetectedNorm
from normdiag.structure.dataflow import trace_dependency


def modulation_operands(node: Node) -> tuple[Node, ...]:
    """The operands of a product of two activations of one width."""
    if node.op != "mul" or node.form is not None or not node.is_floating:
        return ()
    is_spread = all(p.is_data and p.shape[-1:] == node.shape[-1:] for p in node.parents)
    return node.parents if is_spread and len(node.parents) == 2 else ()


def is_modulated(
    carriers: Sequence[Node], operands: Sequence[Node], sources: Mapping[Node, Node]
) -> bool:
    """Whether one factor is the stream and the other does not derive from it, as a gate does."""
    if len(carriers) != 1 or len(set(operands)) != 2:
        return False
    (other,) = (o for o in operands if o is not carriers[0])
    return not trace_dependency(other, sources[carriers[0]])[0]


def find_norm_readers(
    nodes: Iterable[Node], norms: Iterable[DetectedNorm]
) -> dict[DetectedNorm, list[Node]]:
    """The operations that read the result of each norm."""
    by_result = {norm.output or norm.node: norm for norm in norms}
    readers: dict[DetectedNorm, list[Node]] = {}
    for node in nodes:
        for parent in node.parents:
            if parent in by_result:
                readers.setdefault(by_result[parent], []).append(node)
    return readers
