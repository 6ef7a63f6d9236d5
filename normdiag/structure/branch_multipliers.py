"""The stored tensors that multiply a branch as a whole: one number, or one per feature.

A tensor multiplies the branch where a product on its path has, as its one operand that no input
reaches, a parameter or buffer behind views and casts alone. The gains of norms are not among them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from math import prod

from normdiag.graph import Node
from normdiag.structure.algebraic_forms import DetectedNorm
from normdiag.structure.aten_operations import CASTS, VIEWS

_PRODUCTS = ("mul", "multiply", "div", "divide")


def find_multipliers(
    region: Iterable[Node], gains: Collection[Node], width: int
) -> tuple[Node, ...]:
    """The stored tensors of one number or `width` that multiply in `region`, in forward order.

    `gains`: those of the norms, of which none is such a tensor.
    """
    found: dict[Node, None] = {}
    for node in sorted(region, key=lambda each: each.index):
        if node.op not in _PRODUCTS or not node.is_data:
            continue
        for operand in node.parents:
            stored = _skip_copies(operand)
            is_stored = stored.op in ("parameter", "buffer") and stored.is_floating
            is_scalar = prod(stored.shape) == 1
            if is_stored and (is_scalar or (prod(stored.shape) == width and stored not in gains)):
                found[stored] = None
    return tuple(found)


def find_stored_gains(norms: Iterable[DetectedNorm]) -> set[Node]:
    """The stored tensors that the norms are multiplied by, behind views and casts."""
    return {_skip_copies(part) for norm in norms for part in norm.gains if isinstance(part, Node)}


def _skip_copies(node: Node) -> Node:
    while node.op in CASTS or node.op in VIEWS:
        node = node.parents[0]
    return node
