"""Whether a branch mixes tokens: by attention, convolution, pooling, or weights along the tokens.

Weights along the tokens are a contraction over an axis that does not hold the features: behind a
transposition, or a convolution of size 1 over (batch, tokens, features). The features are
followed from the branch's input as a run of elements in memory order: `extent` elements, each
`stride` apart, so that views change nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import prod

from normdiag.graph import Node
from normdiag.structure.aten_operations import (
    CONVOLUTIONS,
    MATRIX_PRODUCTS,
    RESHAPES,
    is_contraction,
    mixes_tokens,
)
from normdiag.structure.feature_axis import feature_axis
from normdiag.structure.residual_adds import DetectedAdd

_RESHAPING = RESHAPES | {"flatten", "unflatten", "squeeze", "unsqueeze", "view_as"}
_SWAPS = frozenset({"transpose", "swapaxes"})


@dataclass(frozen=True, slots=True)
class _Place:
    """Where the features of a value lie in memory order."""

    stride: int
    extent: int

    @property
    def end(self) -> int:
        return self.stride * self.extent


def branch_mixes_tokens(add: DetectedAdd, region: Iterable[Node]) -> bool:
    """Whether the branch's value at one token can depend on another token."""
    nodes = sorted(region, key=lambda n: n.index)
    if any(map(mixes_tokens, nodes)):
        return True
    places: dict[Node, _Place] = {}
    root = _axis_place(add.node.shape, feature_axis(add.branches[-1]))
    if root is None or prod(add.root.shape) != prod(add.node.shape):
        return False
    places[add.root] = root
    for node in nodes:
        source = next((p for p in node.parents if p in places), None)
        if source is None:
            continue
        place = places[source]
        if is_contraction(node):
            axis = _contracted_axis(node, source)
            read = None if axis is None else _axis_place(source.shape, axis)
            if read is None:
                continue
            if read.end <= place.stride or read.stride >= place.end:
                return True
            after = _axis_place(node.shape, 1 if node.op in CONVOLUTIONS else _written_axis(node, source))
        else:
            after = _follow_place(node, source, place)
        if after is not None:
            places[node] = after
    return False


def _axis_place(shape: tuple[int, ...], axis: int) -> _Place | None:
    if not -len(shape) <= axis < len(shape):
        return None
    axis %= len(shape)
    return _Place(prod(shape[axis + 1 :]), shape[axis])


def _contracted_axis(node: Node, source: Node) -> int | None:
    """The axis of the operand that a product with weights sums over."""
    if node.op in CONVOLUTIONS:
        return 1 if node.parents[0] is source else None
    if node.op not in MATRIX_PRODUCTS:
        return None
    return -2 if _is_right_operand(node, source) else -1


def _written_axis(node: Node, source: Node) -> int:
    return -2 if _is_right_operand(node, source) else -1


def _is_right_operand(node: Node, source: Node) -> bool:
    """Whether the operand stands right of the weights, as in W x."""
    operands = [p for p in node.parents if p.is_floating and len(p.shape) > 1]
    return node.op != "linear" and len(operands) > 1 and operands[-1] is source


def _follow_place(node: Node, source: Node, place: _Place) -> _Place | None:
    if node.op in _RESHAPING:
        return place if prod(node.shape) == prod(source.shape) else None
    axis = _place_axis(source.shape, place)
    if axis is None:
        return None
    rank = len(source.shape)
    if node.op == "permute":
        return _axis_place(node.shape, [d % rank for d in node.args[1]].index(axis))
    if node.op in _SWAPS or node.op == "t":
        a, b = (d % rank for d in node.args[1:3]) if node.op != "t" else (0, rank - 1)
        return _axis_place(node.shape, b if axis == a else a if axis == b else axis)
    return _axis_place(node.shape, axis) if len(node.shape) == rank else None


def _place_axis(shape: tuple[int, ...], place: _Place) -> int | None:
    """The axis that holds exactly the features."""
    for axis in range(len(shape)):
        if _axis_place(shape, axis) == place:
            return axis
    return None
