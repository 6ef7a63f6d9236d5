"""Which inputs are token ids: those by which rows of a learned table are picked."""

from __future__ import annotations

from dataclasses import dataclass

from normdiag.graph import Graph, Node
from normdiag.structure.dataflow import trace_origin
from normdiag.structure.stack_structure import StackStructure

_FEATURE_RANK = 3
"""Floating inputs of so many axes hold features; attention masks have two, or are not floating."""


@dataclass(frozen=True, slots=True)
class TokenLookup:
    """One input by which rows of a table are picked, as it is."""

    name: str
    """Of the input."""
    table_rows: int
    """Of the table."""


def find_token_lookups(graph: Graph) -> tuple[TokenLookup, ...]:
    """Every input that is looked up in a learned table, in the order of the forward."""
    found: dict[TokenLookup, None] = {}
    for node in graph:
        table, ids = _lookup_operands(node)
        if table is None or ids is None:
            continue
        given = trace_origin(ids).node
        if given.op == "input" and given.name is not None:
            found[TokenLookup(given.name, table.shape[0])] = None
    return tuple(found)


def _lookup_operands(node: Node) -> tuple[Node | None, Node | None]:
    """Table and ids of `embedding(table, ids)` and of `table[ids]`."""
    if node.op not in ("embedding", "index") or len(node.args) < 2:
        return None, None
    table, ids = node.args[:2]
    if isinstance(ids, list) and len(ids) == 1:
        ids = ids[0]
    is_lookup = isinstance(table, Node) and isinstance(ids, Node) and not ids.is_floating
    if not is_lookup or table.is_data or not table.is_floating or len(table.shape) != 2:
        return None, None
    return table, ids


def has_cross_input(graph: Graph, stacks: list[StackStructure]) -> bool:
    """Whether the last stack's branches read an input that its stream does not begin from, as a
    decoder reads what an encoder makes of its source: features, or ids that are looked up."""
    if not stacks:
        return False
    last = max(stacks, key=lambda stack: stack.adds[-1].add.index)
    begun = last.chain.links[0].source.origins
    read = last.adds[-1].add.node.origins & ~begun
    looked_up = {lookup.name for lookup in find_token_lookups(graph)}
    inputs = [node for node in graph if node.op == "input"]
    return any(
        node.origins & read
        and (node.name in looked_up or (node.is_floating and len(node.shape) >= _FEATURE_RANK))
        for node in inputs
    )
