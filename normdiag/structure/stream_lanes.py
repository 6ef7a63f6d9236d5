"""Several streams in one value: hyper-connections write one branch to each of them.

A value holds them beside each other, along an axis of their own or within that of the sequences or
of the features; the branch reads a weighted sum of them, and its output is spread over all, times a
weight each (Zhu et al., 2024, Hyper-Connections).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from normdiag.graph import Node
from normdiag.structure.aten_operations import MATRIX_PRODUCTS
from normdiag.structure.dataflow import step_back, trace_dependency, trace_origin
from normdiag.structure.feature_place import FeaturePlace, axis_place, find_axis, follow_place

_FEWEST_AXES = 4
"""Of a value with an axis of streams: in fewer, what is spread may be one value for all tokens."""
_SPREADING = frozenset({"mul", "multiply", "expand", "repeat"})


@dataclass(frozen=True, slots=True)
class StreamLanes:
    """How many streams a value holds, and where."""

    count: int
    axis: int | None
    """Theirs, counted from the end; None where they lie within that of sequences or features."""
    is_within_features: bool = False
    """Whether they lie within the last axis."""


@dataclass(frozen=True, slots=True)
class MixedLanes:
    """A product of all streams with a small matrix."""

    product: Node
    lanes: Node
    """The streams before it."""


def find_lanes(node: Node, branch: Node) -> StreamLanes | None:
    """Return the streams over which `branch` is spread before `node` adds it.

    None where there is one stream.
    """
    path, at = [node], branch
    while prod(at.shape) == prod(node.shape):
        path.append(at)
        found = spread_operand(at)
        if found is not None:
            at = found
            continue
        step = step_back(at)
        wide = [p for p in at.parents if p.is_data and p.shape[-1:] == at.shape[-1:]]
        if step is not None:
            at = step[0]
        elif at.op == "mul" and len(wide) == 1:  # times one number per stream
            at = wide[0]
        else:
            return None
    place = _place_of_spread(path[-1], at)
    return None if place is None else _follow_lanes(path[::-1], place)


def spread_operand(node: Node) -> Node | None:
    """Return the value that `node` copies to every stream, times a weight each, if it does."""
    data = [p for p in node.parents if p.is_data and p.is_floating]
    largest = max(data, key=lambda p: prod(p.shape), default=None)
    if largest is None or prod(largest.shape) >= prod(node.shape):
        return None
    return largest if node.op in _SPREADING or is_outer_product(node) else None


def find_mixed_lanes(node: Node, origin: Node, branch: Node) -> MixedLanes | None:
    """Return the mixture of streams of which `origin` is a part or a whole, if it is one.

    `node` adds `branch` to what is a copy of `origin`. The matrix has as many rows as there are
    streams; what the branch reads may be a further column of it.
    """
    if origin.op not in MATRIX_PRODUCTS or origin.form is not None:
        return None
    lanes = find_lanes(node, branch)
    if lanes is None:
        return None
    for mixed in origin.parents:
        if not mixed.is_data or prod(mixed.shape) != prod(node.shape):
            continue
        sizes = [p.shape[-2:] for p in origin.parents if p is not mixed]
        if any(lanes.count in pair and max(pair) <= 2 * lanes.count + 1 for pair in sizes):
            at = trace_origin(mixed).node
            if trace_dependency(branch, at)[1]:
                return MixedLanes(origin, at)
    return None


def is_outer_product(node: Node) -> bool:
    """Whether it multiplies every element of one operand with every one of the other."""
    if node.op not in MATRIX_PRODUCTS or node.form is not None or len(node.parents) != 2:
        return False
    a, b = (p.shape for p in node.parents)
    return len(a) > 1 and len(b) > 1 and a[-1] == b[-2] == 1


def features_of_product(product: Node) -> FeaturePlace:
    """The place of the features in the outer product of a branch's output with weights."""
    single = spread_operand(product) or product.parents[0]
    stride = product.shape[-1] if single is product.parents[0] else 1
    return FeaturePlace(stride, trace_origin(single).node.shape[-1])


def _place_of_spread(node: Node, single: Node) -> FeaturePlace | None:
    """The place of the streams in what spreads `single` over them."""
    if is_outer_product(node):
        return axis_place(node.shape, -1 if node.parents[0] is single else -2)
    padded = (1,) * (len(node.shape) - len(single.shape)) + single.shape
    pairs = enumerate(zip(node.shape, padded, strict=False))
    spread = [i for i, (size, one) in pairs if size != one]
    if len(padded) != len(node.shape) or len(spread) != 1 or padded[spread[0]] != 1:
        return None
    return axis_place(node.shape, spread[0])


def _follow_lanes(path: list[Node], place: FeaturePlace) -> StreamLanes | None:
    """Follow the streams to the last node of `path`, from the one that spreads over them."""
    before, has_axis = path[0], False
    for after in path:
        followed = place if after is before else follow_place(after, before, place)
        if followed is None:
            return None
        place, before = followed, after
        is_apart = find_axis(after.shape, place) is not None
        has_axis = has_axis or (is_apart and len(after.shape) >= _FEWEST_AXES)
    axis = find_axis(before.shape, place)
    if not has_axis or place.stride == 1:
        return None
    last = before.shape[-1]
    return StreamLanes(
        place.extent,
        None if axis is None else axis - len(before.shape),
        is_within_features=axis is None and place.stride < last and place.end <= last,
    )
