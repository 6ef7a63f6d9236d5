"""Several streams in one value: hyper-connections write one branch to each of them.

A value of shape (.., streams, .., features) holds them beside each other; the branch reads a
weighted sum of them, and its output is spread over all (Zhu et al., 2024, Hyper-Connections).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from normdiag.graph import Node
from normdiag.structure.dataflow import step_back, trace_origin
from normdiag.structure.residual_adds import DetectedAdd


@dataclass(frozen=True, slots=True)
class StreamLanes:
    """How many streams a value holds, and along which axis, counted from its end."""

    count: int
    axis: int


def find_lanes(add: DetectedAdd) -> StreamLanes | None:
    """Return the lanes over which the branch of `add` is spread; None where there is one stream."""
    shape, node = add.node.shape, add.branches[-1]
    if len(shape) < 4:
        return None
    while prod(node.shape) == prod(shape):
        step = step_back(node)
        wide = [p for p in node.parents if p.is_data and p.shape[-1:] == shape[-1:]]
        if step is not None:
            node = step[0]
        elif node.op == "mul" and wide:
            node = min(wide, key=lambda p: prod(p.shape))
        else:
            return None
    padded = (1,) * (len(shape) - len(node.shape)) + node.shape
    spread = [i for i, (size, one) in enumerate(zip(shape, padded, strict=False)) if size != one]
    if len(padded) != len(shape) or len(spread) != 1 or padded[spread[0]] != 1:
        return None
    return StreamLanes(shape[spread[0]], spread[0] - len(shape))


def find_lanes_value(add: DetectedAdd) -> Node:
    """The value of all lanes that the skip of `add` copies or mixes, where it first has them."""
    node = add.skip
    if add.is_mixed:
        mixed = trace_origin(add.skip).node
        node = next(p for p in mixed.parents if trace_origin(p).node is add.root)
    while (step := step_back(node)) is not None and prod(step[0].shape) == prod(add.node.shape):
        node = step[0]
    return node
