"""Pooling: tokens are combined feature by feature, without weights."""

from __future__ import annotations

from normdiag.graph import Node
from normdiag.structure.algebraic_forms import reduced_axes

_REDUCTIONS = frozenset({"mean", "amax", "max", "amin", "min"})


def pools_tokens(node: Node) -> bool:
    """Whether an operation takes the mean or an extreme over axes other than the last.

    The larger of two values, which torch calls `max` as well, pools nothing.
    """
    if len(node.parents) != 1:
        return False
    if node.op in _REDUCTIONS:
        axes = reduced_axes(node.parents[0], node.args[1] if len(node.args) > 1 else None)
        return -1 not in axes or (axes == (-1,) and _has_windows_last(node.parents[0]))
    return "_pool" in node.op


def _has_windows_last(node: Node) -> bool:
    """Whether the last axis holds windows along an axis other than the features'."""
    return node.op == "unfold" and node.args[1] % len(node.parents[0].shape) < len(node.shape) - 2
