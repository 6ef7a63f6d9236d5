"""The weights with which a branch reads several streams and is written back to each."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from normdiag.graph import Node
from normdiag.structure.aten_operations import MATRIX_PRODUCTS, part_axis
from normdiag.structure.dataflow import ScaleFactor, nodes_between, step_back
from normdiag.structure.feature_place import FeaturePlace, axis_place, find_axis, follow_place
from normdiag.structure.residual_adds import DetectedAdd
from normdiag.structure.stream_lanes import is_outer_product, spread_operand


@dataclass(frozen=True, slots=True)
class LaneFactor:
    """A number for all streams, or a node that holds one for each."""

    value: float | Node
    axis: int = -1
    """The axis of the streams, where the node has another one too."""
    column: int | None = None
    """The position along that other axis, where values differ along it."""


@dataclass(frozen=True, slots=True)
class LaneWeights:
    """A product of factors: one number per stream."""

    count: int
    factors: tuple[LaneFactor, ...] = ()
    is_data: bool = False
    """Whether one is computed from the inputs."""


@dataclass(frozen=True, slots=True)
class _Path:
    """The way back from a value of all streams to where they come from."""

    origin: Node
    nodes: tuple[Node, ...]
    """Last first, without the origin."""
    factors: tuple[LaneFactor, ...]


def find_write_weights(add: DetectedAdd, count: int) -> LaneWeights:
    """Return the weights that spread the output of `add`'s branch over `count` streams."""
    factors = [] if add.sign == 1.0 else [LaneFactor(add.sign)]
    node, is_data = add.branches[-1], False
    while True:
        single, step = spread_operand(node), step_back(node)
        if single is not None:
            others = [p for p in node.parents if p is not single and p.is_floating]
            is_data = is_data or any(p.is_data for p in others)
            is_first = is_outer_product(node) and node.parents[1] is single
            factors += [LaneFactor(p, -2 if is_first else -1) for p in others if not p.is_data]
            node = single
        elif step is not None:
            node, factor = step
            factors += _lane_factors(factor, count)
        else:
            return LaneWeights(count, tuple(factors), is_data)


def find_read_weights(add: DetectedAdd, count: int) -> LaneWeights | None:
    """Return the weights of the streams in the one sum that the branch reads.

    None where it reads no sum, or several.
    """
    total = prod(add.node.shape)
    found: dict[LaneWeights, None] = {}
    for branch in add.branches:
        for node in sorted(nodes_between(add.root, branch), key=lambda n: n.index):
            if prod(node.shape) * count == total and node is not add.root:
                weights = _read_sum(node, add, count) or _read_column(node, add, count)
                if weights is not None:
                    found[weights] = None
    return next(iter(found)) if len(found) == 1 else None


def _read_sum(node: Node, add: DetectedAdd, count: int) -> LaneWeights | None:
    """The weights where `node` sums all streams, by a product or after one."""
    if node.op in MATRIX_PRODUCTS:
        return _read_product(node, add, count, None)
    if node.op not in ("sum", "mean"):
        return None
    path = _trace_lanes(node.parents[0], add, count)
    if path.origin is not add.root:
        return None
    share = () if node.op == "sum" else (LaneFactor(1.0 / count),)
    return LaneWeights(count, (*path.factors, *share))


def _read_product(
    node: Node, add: DetectedAdd, count: int, column: int | None
) -> LaneWeights | None:
    """The weights where `node` multiplies all streams with a vector, or a column of a matrix."""
    for whole in node.parents:
        if not whole.is_data or prod(whole.shape) != prod(add.node.shape):
            continue
        path = _trace_lanes(whole, add, count)
        other = next((p for p in node.parents if p is not whole), None)
        if path.origin is not add.root or other is None or len(node.parents) != 2:
            continue
        axis = -1 if other is node.parents[0] or len(other.shape) == 1 else -2
        if other.shape[axis] != count:
            continue
        own = () if other.is_data else (LaneFactor(other, axis, column),)
        return LaneWeights(count, (*path.factors, *own), other.is_data)
    return None


def _read_column(node: Node, add: DetectedAdd, count: int) -> LaneWeights | None:
    """The weights where `node` selects one of the sums that a product with a matrix makes."""
    axis = part_axis(node)
    if axis is None or node.op not in ("select", "slice"):
        return None
    path = _trace_lanes(node.parents[0], add, count)
    product = path.origin
    if product.op not in MATRIX_PRODUCTS or path.factors:
        return None
    is_left = not product.parents[0].is_data
    place: FeaturePlace | None = axis_place(product.shape, -2 if is_left else -1)
    before = product
    for after in reversed(path.nodes):
        place = None if place is None else follow_place(after, before, place)
        before = after
    if place is None or find_axis(before.shape, place) != axis % len(before.shape):
        return None
    return _read_product(product, add, count, int(node.args[2]))


def _trace_lanes(node: Node, add: DetectedAdd, count: int) -> _Path:
    nodes: list[Node] = []
    factors: list[LaneFactor] = []
    while node is not add.root and (step := step_back(node)) is not None:
        nodes.append(node)
        node, factor = step
        factors += _lane_factors(factor, count)
    return _Path(node, tuple(nodes), tuple(factors))


def _lane_factors(factor: ScaleFactor | None, count: int) -> list[LaneFactor]:
    """The factor, unless it is none or one per feature."""
    if factor is None:
        return []
    if isinstance(factor.value, Node) and prod(factor.value.shape) not in (1, count):
        return []
    return [LaneFactor(factor.value)]
