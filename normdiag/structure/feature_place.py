"""Where the features of a value lie, followed through views: a run of elements in memory order.

The elements of one token's features are `extent` elements, each `stride` apart in a contiguous
value. A reshape leaves both as they are, whatever it does to the axes; a permutation moves them.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from normdiag.graph import Node
from normdiag.structure.aten_operations import RESHAPES

_RESHAPING = RESHAPES | {"flatten", "unflatten", "squeeze", "unsqueeze", "view_as"}
_SWAPS = frozenset({"transpose", "swapaxes"})


@dataclass(frozen=True, slots=True)
class FeaturePlace:
    """Where features lie in memory order."""

    stride: int
    extent: int

    @property
    def end(self) -> int:
        """The stride of the first axis outside of them."""
        return self.stride * self.extent


def axis_place(shape: tuple[int, ...], axis: int) -> FeaturePlace | None:
    """Return the place of features that fill one axis."""
    if not -len(shape) <= axis < len(shape):
        return None
    axis %= len(shape)
    return FeaturePlace(prod(shape[axis + 1 :]), shape[axis])


def find_axis(shape: tuple[int, ...], place: FeaturePlace) -> int | None:
    """Return the axis, from the start, that holds exactly the features."""
    for axis in reversed(range(len(shape))):
        if axis_place(shape, axis) == place:
            return axis
    return None


def follow_place(node: Node, source: Node, place: FeaturePlace) -> FeaturePlace | None:
    """Return the place of the features in `node`, computed from `source` without weights."""
    if node.op in _RESHAPING and prod(node.shape) == prod(source.shape):
        return place
    is_moved = node.op in _SWAPS or node.op in ("permute", "t")
    if node.shape == source.shape and not is_moved:
        return place
    axis = find_axis(source.shape, place)
    if axis is None:
        return None
    rank = len(source.shape)
    if node.op == "permute":
        return axis_place(node.shape, [d % rank for d in node.args[1]].index(axis))
    if node.op in _SWAPS or node.op == "t":
        a, b = (d % rank for d in node.args[1:3]) if node.op != "t" else (0, rank - 1)
        return axis_place(node.shape, b if axis == a else a if axis == b else axis)
    return axis_place(node.shape, axis) if len(node.shape) == rank else None
