"""Values of which a part was overwritten, in place or by a scatter, with what goes on from it.

`x[:, 1:] += u` is the sum of tokens 1.. with u, and beside it x at token 0, as the concatenation
of the two is.
"""

from __future__ import annotations

from normdiag.graph import Node
from normdiag.structure.algebraic_forms import NormForm
from normdiag.structure.aten_operations import ADDITIONS, CASTS, DROPOUT, VIEWS

_SOURCE_OF_SCATTER = {
    "slice_scatter": 1,
    "select_scatter": 1,
    "index_put": 2,
    "masked_scatter": 2,
    "index_copy": 3,
    "scatter": 3,
}
"""Position of what is written among the arguments; the value before is the first."""


def find_continued_parts(node: Node) -> tuple[Node, Node] | None:
    """The value before, and what was written to a part of it: a sum with that part, or its norm.

    None where nothing was overwritten, or with what does not go on from it.
    """
    for before, written in _overwriting_pairs(node):
        if before.is_data and _goes_on_from(written, before):
            return before, written
    return None


def _overwriting_pairs(node: Node) -> list[tuple[Node, Node]]:
    if node.op == "write":
        return [(node.parents[0], node.parents[1])]
    if node.op == "where" and len(node.parents) == 3:
        _, a, b = node.parents
        return [(b, a), (a, b)]
    place = _SOURCE_OF_SCATTER.get(node.op)
    if place is None or len(node.args) <= place:
        return []
    before, source = node.args[0], node.args[place]
    accumulates = any(v is True for v in (*node.args[place + 1 :], *node.kwargs.values()))
    return [(before, source)] if isinstance(source, Node) and not accumulates else []


def _goes_on_from(written: Node, before: Node) -> bool:
    value, is_normed = written, False
    while value is not before:
        if _adds_to_each(value) and any(_copied_value(p, before) is before for p in value.parents):
            return True
        if isinstance(value.form, NormForm):
            is_normed, value = True, value.form.norm.source
            continue
        data = value.parents[-1:] if value.op == "copy" else [p for p in value.parents if p.is_data]
        if len(data) != 1 or not (_copies_operand(value) or value.op in _AFFINE):
            return False
        value = data[0]
    return is_normed


_AFFINE = ADDITIONS | {"mul", "multiply", "div", "divide"}


def _adds_to_each(node: Node) -> bool:
    """Whether each token gets a term of its own: one for several goes to lanes of a stream."""
    return (
        node.op in ADDITIONS
        and len(set(node.parents)) > 1
        and all(p.shape == node.shape or p.shape[-1:] == (1,) for p in node.parents if p.is_data)
    )


def _copied_value(node: Node, before: Node) -> Node:
    """The value that `node` is a part, a cast or a copy of; no further back than `before`."""
    while node is not before and node.parents and _copies_operand(node):
        node = node.parents[-1] if node.op == "copy" else node.parents[0]
    return node


def _copies_operand(node: Node) -> bool:
    return node.op == "copy" or node.op in VIEWS or node.op in CASTS or node.op in DROPOUT
