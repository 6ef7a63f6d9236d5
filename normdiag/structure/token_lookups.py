"""Inputs that are token ids: indices into a learned embedding table."""

from __future__ import annotations

from dataclasses import dataclass

from normdiag.graph import Graph, Node
from normdiag.structure.dataflow import trace_origin
from normdiag.structure.stack_structure import StackStructure

_FEATURE_RANK = 3
"""Rank of floating-point inputs that hold features; attention masks have two axes or integers."""


@dataclass(frozen=True, slots=True)
class TokenLookup:
    """One input that indexes a table directly."""

    name: str
    """Name of the input."""
    table_rows: int
    """Number of rows of the table."""


def find_token_lookups(graph: Graph) -> tuple[TokenLookup, ...]:
    """Find all inputs that index a learned table, in the order of the forward."""
    lookups: dict[TokenLookup, None] = {}
    for node in graph:
        table, ids = _lookup_operands(node)
        if table is None or ids is None:
            continue
        source = trace_origin(ids).node
        if source.op == "input" and source.name is not None:
            lookups[TokenLookup(source.name, table.shape[0])] = None
    return tuple(lookups)


def _lookup_operands(node: Node) -> tuple[Node | None, Node | None]:
    """The table and the ids of `embedding(table, ids)` or `table[ids]`."""
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
    """Whether the last stack's branches read an input from which its stream does not begin.

    So a decoder reads the encoder's source: features, or ids that index a table.
    """
    if not stacks:
        return False
    last = max(stacks, key=lambda stack: stack.adds[-1].add.index)
    stream_origins = last.chain.links[0].source.origins
    other_origins = last.adds[-1].add.node.origins & ~stream_origins
    looked_up = {lookup.name for lookup in find_token_lookups(graph)}
    inputs = [node for node in graph if node.op == "input"]
    return any(
        node.origins & other_origins
        and (node.name in looked_up or (node.is_floating and len(node.shape) >= _FEATURE_RANK))
        for node in inputs
    )
