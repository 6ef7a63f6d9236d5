"""Near-norms: x, or x - mean(x), scaled by a statistic over its features that makes no known norm.

What scales x is a value of one number per token that derives from x alone, by operations without
weights and over the feature axis: its standard deviation with the mean left in x, its variance,
the sum or the largest of |x|, the mean square of a part of the features.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from math import prod

from normdiag.graph import Graph, Node
from normdiag.structure.algebraic_forms import (
    DetectedNorm,
    LinearForm,
    NormForm,
    ScaleShiftTerm,
    linear_form,
    scalar_value,
    uncast_value,
)
from normdiag.structure.aten_operations import CASTS, VIEWS, is_contraction, is_score_product
from normdiag.structure.dataflow import trace_origin
from normdiag.structure.scaling_statistic import ScalingStatistic, read_statistic

_PRODUCTS = frozenset({"mul", "div", "multiply", "divide"})
_SPREADING = frozenset({"expand", "expand_as", *CASTS})
_ROUNDING = frozenset({"round", "floor", "ceil", "trunc"})
_AFTER_SCALING = frozenset({"add", "clamp", "clamp_min", "clamp_max", "mul", *CASTS, *VIEWS})
_SEARCHED = 8
"""Operations behind a scaling within which a number format would round it."""


def match_near_norm(node: Node) -> DetectedNorm | None:
    """Match a product or quotient of x and a statistic of x over its features."""
    if node.op not in _PRODUCTS or len(node.args) < 2:
        return None
    a, b = node.args[0], node.args[1]
    is_division = node.op.startswith("div")
    for value, scale in ((a, b),) if is_division else ((a, b), (b, a)):
        if not (isinstance(value, Node) and isinstance(scale, Node)):
            return None
        axes = _statistic_axes(value, scale)
        x = linear_form(value) if axes else None
        if x is None or not _is_linear_value(x.source):
            continue
        statistic = read_statistic(scale, _equal_values(x.source), is_division=is_division)
        if statistic is not None:
            return _build_near_norm(node, x, axes, statistic)
    return None


def promote_pending_norms(
    pending: Iterable[Node], completed: Container[DetectedNorm]
) -> list[DetectedNorm]:
    """Return what x a of `pending` is where no mean was ever subtracted: x over its deviation."""
    norms: dict[DetectedNorm, None] = {}
    for node in pending:
        term = node.form
        if not isinstance(term, ScaleShiftTerm) or term.norm in completed:
            continue
        norm = term.norm
        norm.statistic = norm.statistic or _read_statistic_of_product(norm.node, norm.source)
        if norm.statistic is None or not _is_linear_value(norm.source):
            continue
        norm.kind, norm.is_centred, norm.mean = "other", False, None
        norm.gains = [] if term.gain is None else [term.gain]
        norm.output = node
        node.form = NormForm(norm)
        norms[norm] = None
    return list(norms)


def _read_statistic_of_product(node: Node, source: Node) -> ScalingStatistic | None:
    is_division = node.op.startswith("div")
    values = _equal_values(source)
    for operand in node.args[1:2] if is_division else node.args[:2]:
        statistic = (
            read_statistic(operand, values, is_division=is_division)
            if isinstance(operand, Node)
            else None
        )
        if statistic is not None:
            return statistic
    return None


def drop_quantised_values(norms: list[DetectedNorm], graph: Graph) -> list[DetectedNorm]:
    """Leave out near-norms whose output is rounded to integers or float8, and reset their forms.

    Such a scale is the step of a number format, and is taken back behind the rounding.
    """
    near = [norm for norm in norms if norm.statistic is not None]
    if not near:
        return norms
    readers: dict[Node, list[Node]] = {}
    for node in graph:
        for parent in node.parents:
            readers.setdefault(parent, []).append(node)
    dropped = {norm for norm in near if _is_rounded(norm.node, readers)}
    for norm in dropped:
        for node in {norm.node, norm.output or norm.node}:
            node.form = None
    return [norm for norm in norms if norm not in dropped]


def _statistic_axes(value: Node, scale: Node) -> tuple[int, ...]:
    """The axes along which `scale` is one number, where they hold the features; else none."""
    while scale.op in _SPREADING and scale.parents:
        scale = scale.parents[0]
    if not (value.is_data and scale.is_data and value.is_floating and scale.is_floating):
        return ()
    rank = len(value.shape)
    if len(scale.shape) != rank or prod(value.shape[-1:]) < 2:
        return ()
    pairs = list(zip(value.shape, scale.shape, strict=True))
    axes = tuple(i - rank for i, (size, one) in enumerate(pairs) if one == 1 and size > 1)
    is_whole = all(one in (1, size) for size, one in pairs)
    return axes if is_whole and axes in ((-1,), (-3,)) and (axes == (-1,) or rank == 4) else ()


def _is_linear_value(source: Node, depth: int = 3) -> bool:
    """Whether x is a sum, an embedding, a projection or a norm: not weights that add up to 1.

    A sum is one where a summand is, followed back through at most `depth` sums; a pooled value is
    one where what is pooled is.
    """
    origin = trace_origin(source).node
    while _is_pooled(origin):
        origin = trace_origin(origin.parents[0]).node
    if isinstance(origin.form, NormForm) or origin.op in ("embedding", "input", "cat"):
        return True
    if origin.op in ("add", "sub"):
        operands = [p for p in origin.args[:2] if isinstance(p, Node) and p.is_data]
        if len(operands) < 2 and not any(map(_is_learned, origin.args[:2])):
            return False
        if any(is_score_product(trace_origin(p).node) for p in operands):
            return False
        return depth == 0 or any(_is_linear_value(p, depth - 1) for p in operands)
    return is_contraction(origin) and not is_score_product(origin)


def _is_pooled(node: Node) -> bool:
    return node.op == "mean" or "avg_pool" in node.op


def _is_learned(operand: object) -> bool:
    return isinstance(operand, Node) and not operand.is_data


def _equal_values(source: Node) -> set[Node]:
    """`source` and the earlier values that it is a constant multiple or a cast of."""
    values = {source}
    node = source
    while node.parents:
        is_scaled = node.op in _PRODUCTS and len(node.parents) == 1
        if not (is_scaled and scalar_value(node.args[1]) is not None):
            break
        node = uncast_value(node.parents[0])
        values.add(node)
    return values


def _build_near_norm(
    node: Node, x: LinearForm, axes: tuple[int, ...], statistic: ScalingStatistic
) -> DetectedNorm:
    return DetectedNorm(
        node=node,
        source=x.source,
        kind="other",
        axes=axes,
        count=prod(x.source.shape[axis] for axis in axes),
        is_centred=x.is_centred,
        eps=None,
        eps_place="inside",
        variance_scale=1.0,
        factor=x.scale,
        frame=node.frame,
        output=node,
        mean=x.mean,
        statistic=statistic,
    )


def _is_rounded(node: Node, readers: dict[Node, list[Node]]) -> bool:
    pending, visited = list(readers.get(node, ())), 0
    while pending and visited < _SEARCHED:
        reader = pending.pop(0)
        visited += 1
        if reader.op in _ROUNDING or not reader.is_floating or "float8" in reader.dtype:
            return True
        if reader.op in _AFTER_SCALING:
            pending += readers.get(reader, ())
    return False
