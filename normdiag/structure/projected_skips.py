"""Residual adds whose skip is transformed: y = P(x) + F(x), with P linear weights, pooling or both.

A stage of a convolutional network begins with one (He et al. 2015, option B), since the branch
changes the width or the resolution; so do the stages of hierarchical transformers.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from normdiag.graph import Node
from normdiag.structure.activations import find_activated_value, is_activation
from normdiag.structure.algebraic_forms import NormForm
from normdiag.structure.aten_operations import (
    ATTENTION,
    CONVOLUTIONS,
    MATRIX_PRODUCTS,
    SOFTMAX,
    is_contraction,
)
from normdiag.structure.dataflow import nodes_between, step_back, trace_dependency, trace_origin
from normdiag.structure.token_pooling import pools_tokens

_NONLINEAR = SOFTMAX | ATTENTION | {"glu"}
_LONGEST_PROJECTION = 24
"""Operations on a skip, views included, behind which it is no projection of the stream."""


def find_projected_root(skip: Node, branch: Node, adds: Collection[Node]) -> Node | None:
    """Return x of P(x) + F(x); None where `skip` is no projection or `branch` is no branch of x.

    `adds`: the residual adds so far. F holds none of them, and is not linear: two linear maps of
    one value, as in a low-rank adapter, make one linear map.
    """
    for root, contractions in _projected_values(skip):
        if not trace_dependency(branch, root)[1]:
            continue
        inside = nodes_between(root, branch) - {root}
        is_linear = not any(n.op in _NONLINEAR or is_activation(n) for n in inside)
        is_shorter = contractions < sum(map(is_contraction, inside))
        is_branch = is_shorter and not is_linear and not any(n in adds for n in inside)
        return _before_norms(root) if is_branch else None
    return None


def _before_norms(value: Node) -> Node:
    """The value ahead of a norm and its activation that both the skip and the branch read."""
    before = find_activated_value(value) or value
    while isinstance(before.form, NormForm):
        value = before = trace_origin(before.form.norm.source).node
    return value


def _projected_values(skip: Node) -> Iterator[tuple[Node, int]]:
    """The values of which a skip is a projection, with the number of contractions passed."""
    node, contractions, is_projected = skip, 0, False
    for _ in range(_LONGEST_PROJECTION):
        if isinstance(node.form, NormForm):
            node = node.form.norm.source
        elif (step := step_back(node)) is not None:
            node = step[0]
        elif pools_tokens(node):
            node, is_projected = node.parents[0], True
        elif _is_linear_map(node):
            (node,) = (p for p in node.parents if p.is_data)
            contractions, is_projected = contractions + 1, True
        else:
            return
        if is_projected:
            yield trace_origin(node).node, contractions


def _is_linear_map(node: Node) -> bool:
    is_product = node.op in MATRIX_PRODUCTS or node.op in CONVOLUTIONS
    return is_product and node.form is None and sum(p.is_data for p in node.parents) == 1
