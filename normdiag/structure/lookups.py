"""Which inputs are token ids: those by which rows of a learned table are picked."""

from __future__ import annotations

from dataclasses import dataclass

from normdiag.graph import Graph, Node
from normdiag.structure.attachments import StackFacts
from normdiag.structure.flow import origin

_FEATURE_RANK = 3
"""Floating inputs of so many axes hold features; attention masks have two, or are not floating."""


@dataclass(frozen=True, slots=True)
class Lookup:
    """One input by which rows of a table are picked, as it is."""

    name: str
    """Of the input."""
    rows: int
    """Of the table."""


def lookups(graph: Graph) -> tuple[Lookup, ...]:
    """Every input that is looked up in a learned table, in the order of the forward."""
    found: dict[Lookup, None] = {}
    for node in graph:
        table, ids = _operands(node)
        if table is None or ids is None:
            continue
        given = origin(ids).node
        if given.op == "input" and given.name is not None:
            found[Lookup(given.name, table.shape[0])] = None
    return tuple(found)


def _operands(node: Node) -> tuple[Node | None, Node | None]:
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


def reads_a_source(graph: Graph, stacks: list[StackFacts]) -> bool:
    """Whether the last stack's branches read an input that its stream does not begin from, as a
    decoder reads what an encoder makes of its source: features, or ids that are looked up."""
    if not stacks:
        return False
    last = max(stacks, key=lambda stack: stack.adds[-1].add.index)
    begun = last.chain.links[0].source.origins
    read = last.adds[-1].add.node.origins & ~begun
    looked_up = {lookup.name for lookup in lookups(graph)}
    inputs = [node for node in graph if node.op == "input"]
    return any(
        node.origins & read
        and (node.name in looked_up or (node.is_floating and len(node.shape) >= _FEATURE_RANK))
        for node in inputs
    )
