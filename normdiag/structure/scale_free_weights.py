"""Which weights feed only norms, so that their scale changes nothing.

Every value has a degree in one weight W: it goes as lambda^d where W goes as lambda W. Products add
degrees, sums keep them where all terms have the same, a norm makes every degree 0 (epsilon apart).
W is scale-free where no value of another degree is left over. This holds for positive lambda,
since ReLU is of degree one for those.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from normdiag.graph import Graph, Node
from normdiag.structure.algebraic_forms import (
    DetectedNorm,
    GainedForm,
    LinearForm,
    NormForm,
    PowerForm,
    ScaleShiftTerm,
    scalar_value,
)
from normdiag.structure.aten_operations import ATTENTION, CASTS, CONVOLUTIONS, DROPOUT, VIEWS

_SUMS = frozenset({"add", "sub", "rsub"})
_PRODUCTS = frozenset(
    {
        "mul", "mm", "bmm", "matmul", "mv", "dot", "einsum", "outer", "inner", "tensordot",
        "_grouped_mm", "grouped_mm",
    }
)  # fmt: skip
_BIASED = frozenset({"addmm", "baddbmm", "addmv"})
"""The first operand is added to the product of the next two."""
_WEIGHTED = CONVOLUTIONS | {"linear"}
"""Operand, weight, and a bias or none."""
_HOMOGENEOUS = CASTS | VIEWS | DROPOUT | {
    "neg", "abs", "relu", "cat", "stack", "sum", "mean", "cumsum", "amax", "write",
    "linalg_vector_norm", "norm",
}  # fmt: skip
"""Of degree one in all their operands together, for positive lambda."""
_POWERS = {"square": 2.0, "sqrt": 0.5, "rsqrt": -0.5, "reciprocal": -1.0}
_FIXED = frozenset({"batchnorm", "dyt", "other"})
"""Norms that do not divide by the size of their input: a batch norm in eval mode is a fixed map."""


@dataclass(slots=True)
class _Degrees:
    """Of the values that depend on one weight."""

    by_node: dict[Node, float]
    norms: list[DetectedNorm] = field(default_factory=list)
    """Those that took a scale off."""
    statistics: set[Node] = field(default_factory=set)
    """Of no degree, since epsilon was added; only a norm's division may use them."""


def find_scale_free_weights(graph: Graph) -> dict[str, DetectedNorm]:
    """Parameter name of every scale-free matrix -> the first norm that takes its scale off."""
    children: dict[Node, list[Node]] = {}
    for node in graph:
        for parent in dict.fromkeys(node.parents):
            children.setdefault(parent, []).append(node)
    found = {}
    for node in graph:
        if node.op == "parameter" and node.name is not None and len(node.shape) > 1:
            norm = _find_absorbing_norm(node, children)
            if norm is not None:
                found[node.name] = norm
    return found


def _find_absorbing_norm(
    weight: Node, children: Mapping[Node, Iterable[Node]]
) -> DetectedNorm | None:
    """Follow what depends on the weight until nothing of its scale is left; None where it stays."""
    degrees = _Degrees({weight: 1.0})
    waiting = set(children.get(weight, ()))
    while waiting:
        node = min(waiting, key=lambda n: n.index)
        waiting.discard(node)
        if node.output and node not in children:
            continue  # a further result of an operation, that nothing reads
        degree = _node_degree(node, degrees)
        if degree is not None:
            degrees.by_node[node] = degree
        elif isinstance(node.form, (PowerForm, ScaleShiftTerm, GainedForm)):
            degrees.statistics.add(node)
        else:
            return None
        if degree == 0.0:
            continue
        if node not in children:
            return None  # the model gives it back
        waiting.update(children[node])
    return degrees.norms[0] if degrees.norms else None


def _node_degree(node: Node, degrees: _Degrees) -> float | None:
    """Of the value of `node`; None where it is no power of lambda."""
    form, of = node.form, degrees.by_node
    uses_statistics = any(p in degrees.statistics for p in node.parents)
    if isinstance(form, NormForm) and (form.norm.node is node or uses_statistics):
        if form.norm.kind in _FIXED:
            return None
        degrees.norms.append(form.norm)
        return 0.0
    if isinstance(form, LinearForm) and form.is_centred and form.source in of:
        return of[form.source]
    return None if uses_statistics else _operation_degree(node, of)


def _operation_degree(node: Node, of: Mapping[Node, float]) -> float | None:
    def degree(value: Any) -> float:
        return of.get(value, 0.0) if isinstance(value, Node) else 0.0

    op, args = node.op, node.args
    if not any(map(degree, node.parents)):
        return 0.0
    if op in _HOMOGENEOUS:
        return _common_degree(degree(p) for p in node.parents if 0 not in p.shape)  # an empty cache
    if op in _SUMS:
        return _common_degree(degree(value) for value in args[:2] if scalar_value(value) != 0.0)
    if op in _PRODUCTS:
        return sum(map(degree, node.parents))
    if op in _POWERS or op == "pow":
        exponent = _POWERS.get(op) or scalar_value(args[1])
        return None if exponent is None else degree(args[0]) * exponent
    if op == "div":
        return degree(args[0]) - degree(args[1])
    if op == "embedding":
        return degree(args[0])
    if op in _BIASED:
        return _common_degree((degree(args[0]), degree(args[1]) + degree(args[2])))
    if op in _WEIGHTED:
        product = degree(args[0]) + degree(args[1])
        has_bias = len(args) > 2 and isinstance(args[2], Node)
        return _common_degree((product, degree(args[2]))) if has_bias else product
    if op in ATTENTION and not any(map(degree, args[:2])):
        return degree(args[2])
    return None


def _common_degree(degrees: Iterable[float]) -> float | None:
    """The degree of a sum; None where its terms differ."""
    different = set(degrees)
    return different.pop() if len(different) == 1 else None
