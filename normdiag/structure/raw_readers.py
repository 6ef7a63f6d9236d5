"""Contractions on a branch that read the stream past the norms at the branch's start."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import prod

from normdiag.graph import Node
from normdiag.structure.activations import is_activation
from normdiag.structure.algebraic_forms import DetectedNorm
from normdiag.structure.aten_operations import (
    CASTS,
    CONVOLUTIONS,
    DROPOUT,
    MATRIX_PRODUCTS,
    SIGMOIDS,
    SOFTMAX,
    VIEWS,
    is_contraction,
)
from normdiag.structure.dataflow import trace_origin
from normdiag.structure.residual_adds import DetectedAdd

_COPYING = frozenset({"add", "sub", "mul", "div", "cat", *VIEWS, *CASTS, *DROPOUT})
"""Operations whose result holds x token by token: positions added, gates, views."""
_CHOOSING = SIGMOIDS | SOFTMAX | {"topk"}


def find_raw_readers(
    add: DetectedAdd, region: set[Node], norms: Iterable[DetectedNorm]
) -> tuple[Node, ...]:
    """Find the products of x with weights that none of the branch's `norms` precedes.

    Left out are those that only choose or scale what others compute (gates, routers), and low-rank
    adapters: what goes through fewer features than x has and is then added.
    """
    # what makes the statistic of a norm leads on through the norm alone
    normed = {node for norm in norms for node in (norm.node, norm.output)}
    reached, readers = {add.root}, []
    ordered = sorted(region, key=lambda n: n.index)
    for node in ordered:
        if node in normed or not any(p in reached for p in node.parents):
            continue
        if _has_weights(node):
            readers.append(node)
        elif node.op in _COPYING:
            reached.add(node)
    ends = {trace_origin(branch).node for branch in add.branches}
    return tuple(n for n in readers if not _ResultWalk(n, add.root, ends).finds_use(ordered))


@dataclass(frozen=True, slots=True)
class _Passed:
    """What a reader's result has passed."""

    is_activated: bool = False
    """Whether an activation came behind the last contraction."""
    is_narrow: bool = False
    """Whether it went through fewer features than x has, and a contraction behind them."""


class _ResultWalk:
    """Follows the result of one reader along its branch."""

    def __init__(self, reader: Node, root: Node, ends: set[Node]) -> None:
        self._size, self._ends = prod(root.shape), ends
        self._passed = {reader: _Passed()}

    def finds_use(self, ordered: Iterable[Node]) -> bool:
        """Whether the result is a gate, a choice or the output of an adapter."""
        for node in ordered:
            own = [p for p in node.parents if p in self._passed]
            if not own or node in self._passed:
                continue
            others = [p for p in node.parents if p.is_data and p not in self._passed]
            if self._is_use(node, own, others):
                return True
            self._follow(node, own)
        return any(self._passed[end].is_narrow for end in self._ends if end in self._passed)

    def _is_use(self, node: Node, own: list[Node], others: list[Node]) -> bool:
        is_choice = not node.is_floating and node.op not in DROPOUT
        if node.op in _CHOOSING or is_choice:
            return True
        if not others:
            return False
        if node.op == "mul":
            return any(self._passed[p].is_activated for p in own)
        return node.op == "add" and any(self._passed[p].is_narrow for p in own)

    def _follow(self, node: Node, own: list[Node]) -> None:
        before = [self._passed[p] for p in own]
        is_narrow = any(each.is_narrow for each in before)
        if _has_weights(node):
            is_narrow = is_narrow or any(prod(p.shape) < self._size for p in own)
            self._passed[node] = _Passed(is_narrow=is_narrow)
        elif is_activation(node):
            self._passed[node] = _Passed(is_activated=True, is_narrow=is_narrow)
        elif node.op in _COPYING:
            is_activated = any(each.is_activated for each in before)
            self._passed[node] = _Passed(is_activated, is_narrow)


def _has_weights(node: Node) -> bool:
    if not is_contraction(node) or node.op not in MATRIX_PRODUCTS | CONVOLUTIONS:
        return False
    return any(not p.is_data and len(p.shape) > 1 for p in node.parents)
