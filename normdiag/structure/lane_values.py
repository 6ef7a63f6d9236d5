"""The value of all streams that an add writes to, before it does."""

from __future__ import annotations

from math import prod

from normdiag.graph import Node
from normdiag.structure.dataflow import step_back, trace_origin
from normdiag.structure.residual_adds import DetectedAdd, trace_past_bias


def find_lanes_value(add: DetectedAdd) -> Node:
    """The value of all lanes that the skip of `add` copies or mixes, where it first has them.

    It has the shape of the sum, where there is such a value.
    """
    node = add.skip
    if add.is_mixed:
        mixed = trace_past_bias(add.skip)
        node = next(p for p in mixed.parents if trace_origin(p).node is add.root)
    first = node
    while (step := step_back(node)) is not None and prod(step[0].shape) == prod(add.node.shape):
        node = step[0]
        first = node if node.shape == add.node.shape or first.shape != add.node.shape else first
    return first
