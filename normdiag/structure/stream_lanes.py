"""Several streams in one value: hyper-connections write one branch to each of them.

A value of shape (.., streams, .., features) holds them beside each other; the branch reads a
weighted sum of them, and its output is spread over all (Zhu et al., 2024, Hyper-Connections).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from normdiag.graph import Node
from normdiag.structure.dataflow import nodes_between, step_back, trace_origin
from normdiag.structure.residual_adds import DetectedAdd, trace_past_bias
from normdiag.structure.token_pooling import pools_tokens


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
        elif node.op == "mul" and len(wide) == 1:  # times one number per stream
            node = wide[0]
        else:
            return None
    padded = (1,) * (len(shape) - len(node.shape)) + node.shape
    spread = [i for i, (size, one) in enumerate(zip(shape, padded, strict=False)) if size != one]
    if len(padded) != len(shape) or len(spread) != 1 or padded[spread[0]] != 1:
        return None
    lanes = StreamLanes(shape[spread[0]], spread[0] - len(shape))
    return None if _is_pooled(node, add.root) else lanes


def _is_pooled(update: Node, root: Node) -> bool:
    """Whether one update for many positions is computed from their mean or extreme."""
    between = nodes_between(root, update)
    return any(pools_tokens(n) and trace_origin(n.parents[0]).node is root for n in between)


def find_lanes_value(add: DetectedAdd) -> Node:
    """The value of all lanes that the skip of `add` copies or mixes, where it first has them."""
    node = add.skip
    if add.is_mixed:
        mixed = trace_past_bias(add.skip)
        node = next(p for p in mixed.parents if trace_origin(p).node is add.root)
    while (step := step_back(node)) is not None and prod(step[0].shape) == prod(add.node.shape):
        node = step[0]
    return node
