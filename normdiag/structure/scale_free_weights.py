"""Weights whose scale does not change the output, because only norms read their result.

Every value has a degree of homogeneity d in one weight W: it scales by lambda^d where W scales by
lambda. Products add degrees, sums keep a common degree, a norm makes every degree 0 (up to
epsilon). W is scale-free where every output has degree 0. This holds for positive lambda, for
which ReLU is of degree one.
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
        "mul", "mm", "bmm", "matmul", "mv", "dot", "outer", "inner", "tensordot",
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
"""Operations of degree one in all operands together, for positive lambda."""
_POWERS = {"square": 2.0, "sqrt": 0.5, "rsqrt": -0.5, "reciprocal": -1.0}
_FIXED = frozenset({"batchnorm", "dyt", "other"})
"""Norms that do not divide by the size of their input, such as batch norm in eval mode."""


@dataclass(slots=True)
class _Degrees:
    """Degrees of the values that depend on one weight."""

    by_node: dict[Node, float]
    norms: list[DetectedNorm] = field(default_factory=list)
    """Norms that removed a scale."""
    statistics: set[Node] = field(default_factory=set)
    """Values without degree because of epsilon; only the division of a norm may use them."""


def find_scale_free_weights(graph: Graph) -> dict[str, DetectedNorm]:
    """Return the first norm that removes the scale of each scale-free matrix, by parameter name."""
    children: dict[Node, list[Node]] = {}
    for node in graph:
        for parent in dict.fromkeys(node.parents):
            children.setdefault(parent, []).append(node)
    norms = {}
    for node in graph:
        if node.op == "parameter" and node.name is not None and len(node.shape) > 1:
            norm = _find_absorbing_norm(node, children)
            if norm is not None:
                norms[node.name] = norm
    return norms


def _find_absorbing_norm(
    weight: Node, children: Mapping[Node, Iterable[Node]]
) -> DetectedNorm | None:
    """Follow the weight's dependents until norms have removed its scale; None if some keep it."""
    degrees = _Degrees({weight: 1.0})
    waiting = set(children.get(weight, ()))
    while waiting:
        node = min(waiting, key=lambda n: n.index)
        waiting.discard(node)
        if node.output and node not in children:
            continue  # an unused further output of an operation
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
            return None  # an output of the model
        waiting.update(children[node])
    return degrees.norms[0] if degrees.norms else None


def _node_degree(node: Node, degrees: _Degrees) -> float | None:
    """Degree of the value of `node`; None where it is not homogeneous."""
    form, degree_of = node.form, degrees.by_node
    uses_statistics = any(p in degrees.statistics for p in node.parents)
    if isinstance(form, NormForm) and (form.norm.node is node or uses_statistics):
        if form.norm.kind in _FIXED:
            return None
        degrees.norms.append(form.norm)
        return 0.0
    if isinstance(form, LinearForm) and form.is_centred and form.source in degree_of:
        return degree_of[form.source]
    return None if uses_statistics else _operation_degree(node, degree_of)


def _operation_degree(node: Node, degree_of: Mapping[Node, float]) -> float | None:
    def degree(value: Any) -> float:
        return degree_of.get(value, 0.0) if isinstance(value, Node) else 0.0

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
    """The common degree of the terms of a sum; None where they differ."""
    different = set(degrees)
    return different.pop() if len(different) == 1 else None
