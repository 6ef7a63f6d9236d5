"""What a stream meets on its way: products with other data, its own earlier values, readers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from normdiag.graph import Node
from normdiag.structure.algebraic_forms import DetectedNorm, NormForm
from normdiag.structure.aten_operations import MATRIX_PRODUCTS
from normdiag.structure.dataflow import trace_dependency, trace_origin


def modulation_operands(node: Node) -> tuple[Node, ...]:
    """The operands of a product of two activations of one width."""
    if node.op != "mul" or node.form is not None or not node.is_floating:
        return ()
    is_spread = all(p.is_data and p.shape[-1:] == node.shape[-1:] for p in node.parents)
    return node.parents if is_spread and len(node.parents) == 2 else ()


def find_merged_values(node: Node) -> Node | None:
    """Find the concatenation of values that weights project back to their one width.

    A U-Net of transformer layers brings an earlier value of the stream back like this, some with a
    norm ahead of the weights.
    """
    data = [p for p in node.parents if p.is_data]
    if node.op not in MATRIX_PRODUCTS or node.form is not None or len(data) != 1:
        return None
    joined = trace_origin(data[0]).node
    if isinstance(joined.form, NormForm):
        joined = trace_origin(joined.form.norm.source).node
    if joined.op != "cat" or joined.shape[-1] == node.shape[-1]:
        return None
    are_alike = all(p.is_data and p.shape[-1:] == node.shape[-1:] for p in joined.parents)
    return joined if are_alike else None


def find_modulated(node: Node, root: Node) -> Node | None:
    """The factor computed from `root` where a condition, which is not, multiplies it."""
    operands = modulation_operands(node)
    derived = [o for o in operands if trace_dependency(o, root)[0]]
    return derived[0] if len(derived) == 1 else None


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
