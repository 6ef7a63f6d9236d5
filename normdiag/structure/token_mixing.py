"""Whether a branch mixes tokens: by attention, convolution, pooling, or weights along the tokens.

Weights along the tokens are a contraction over an axis that does not hold the features: behind a
transposition, or a convolution of size 1 over (batch, tokens, features). The features are
followed from the branch's input (`feature_place`).
"""

from __future__ import annotations

from collections.abc import Collection
from math import prod

from normdiag.graph import Node
from normdiag.structure.aten_operations import (
    CONVOLUTIONS,
    MATRIX_PRODUCTS,
    is_contraction,
    mixes_tokens,
)
from normdiag.structure.feature_axis import stream_axis
from normdiag.structure.feature_place import FeaturePlace, axis_place, follow_place
from normdiag.structure.residual_adds import DetectedAdd


def branch_mixes_tokens(add: DetectedAdd, region: Collection[Node]) -> bool:
    """Whether the branch's value at one token can depend on another token."""
    return any(map(mixes_tokens, region)) or _contracts_tokens(add, region)


def _contracts_tokens(add: DetectedAdd, region: Collection[Node]) -> bool:
    """Whether weights lie along an axis that does not hold the features."""
    places: dict[Node, FeaturePlace] = {}
    root = axis_place(add.node.shape, stream_axis(add))
    if root is None or prod(add.root.shape) != prod(add.node.shape):
        return False
    places[add.root] = root
    for node in sorted(region, key=lambda n: n.index):
        source = next((p for p in node.parents if p in places), None)
        if source is None:
            continue
        place = places[source]
        if is_contraction(node):
            axis = _contracted_axis(node, source)
            read = None if axis is None else axis_place(source.shape, axis)
            if read is None:
                continue
            if read.end <= place.stride or read.stride >= place.end:
                return True
            after = axis_place(
                node.shape, 1 if node.op in CONVOLUTIONS else _written_axis(node, source)
            )
        else:
            after = follow_place(node, source, place)
        if after is not None:
            places[node] = after
    return False


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
