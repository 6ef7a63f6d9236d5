"""Gains and biases of what scales a token by its own statistic and is no norm of known form."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from normdiag.graph import Node
from normdiag.structure.aten_operations import CASTS
from normdiag.structure.dataflow import trace_dependency

_PRODUCTS = frozenset({"mul", "multiply", "div", "divide"})
_ELEMENTWISE = _PRODUCTS | {"add", "sub"}


def list_affine_values(nodes: Iterable[Node]) -> Iterator[Node]:
    """Yield learned values that scale or shift x s(x) elementwise, s one number per token.

    x / std(x), x / max|x| and the like: their gains belong to them, not to the branch behind.
    """
    scaled: set[Node] = set()
    for node in sorted(nodes, key=lambda node: node.index):
        is_behind = any(parent in scaled for parent in node.parents)
        if (is_behind and node.op in CASTS) or _is_scaled_by_statistic(node):
            scaled.add(node)
        elif is_behind and node.op in _ELEMENTWISE:
            learned = [parent for parent in node.parents if not parent.is_data]
            if learned:
                scaled.add(node)
                yield from learned


def _is_scaled_by_statistic(node: Node) -> bool:
    """x s or x / s, with x or what it is computed from in s, and no contraction between them."""
    if node.op not in _PRODUCTS or len(node.parents) != 2:
        return False
    return any(
        statistic.shape[-1:] == (1,)
        and value.shape[-1:] != (1,)
        and any(trace_dependency(statistic, start) == (True, False) for start in _sources(value))
        for value, statistic in (node.parents, node.parents[::-1])
    )


def _sources(value: Node) -> tuple[Node, ...]:
    return value, *(parent for parent in value.parents if parent.is_data)
