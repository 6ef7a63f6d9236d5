"""The axis of a stream that holds its features."""

from __future__ import annotations

from normdiag.graph import Node
from normdiag.structure.algebraic_forms import NormForm
from normdiag.structure.aten_operations import CONVOLUTIONS
from normdiag.structure.dataflow import step_back


def feature_axis(branch: Node) -> int:
    """Return the axis, from the end, that the branch's last contraction writes features to.

    A convolution writes to axis 1, everything else to the last axis; permutations between it and
    the add are applied.
    """
    node = branch
    permutations: list[Node] = []
    while True:
        if isinstance(node.form, NormForm) and node.form.norm.node is node:
            axes = node.form.norm.axes
            rank = len(node.shape)
            if node.form.norm.kind in ("batchnorm", "groupnorm"):
                return _permuted_axis(1 - rank, permutations)
            return _permuted_axis(axes[0], permutations)
        step = step_back(node)
        if step is None:
            break
        if node.op in ("permute", "transpose", "movedim", "swapaxes"):
            permutations.append(node)
        elif len(node.shape) != len(step[0].shape):
            return -1
        node = step[0]
    if node.op in CONVOLUTIONS and node.shape:
        return _permuted_axis(1 - len(node.shape), permutations)
    return _permuted_axis(-1, permutations)


def _permuted_axis(axis: int, permutations: list[Node]) -> int:
    for node in reversed(permutations):
        rank = len(node.shape)
        at = axis + rank
        if node.op == "permute":
            order = [d % rank for d in node.args[1]]
            at = order.index(at)
        elif node.op in ("transpose", "swapaxes"):
            a, b = (d % rank for d in node.args[1:3])
            at = b if at == a else a if at == b else at
        axis = at - rank
    return axis
