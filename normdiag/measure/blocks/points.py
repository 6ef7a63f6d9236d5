"""The values of a stream between its adds: where it is cut into spans, and where the token lies."""

from __future__ import annotations

import math
from dataclasses import dataclass
from math import prod

import numpy as np
import torch
from torch.autograd.graph import GradientEdge

from normdiag.graph import Node
from normdiag.measure.passes.gradient_edges import GradientEdges
from normdiag.measure.statistics.rows import TokenLayout, Tokens, leading_sizes
from normdiag.structure.feature_axis import feature_axis
from normdiag.structure.stack_structure import AddStructure, StackStructure


@dataclass(frozen=True, slots=True)
class StreamPoint:
    """One value of the stream, at one of its tokens."""

    edge: GradientEdge
    shape: tuple[int, ...]
    axis: int
    """Of the features, counted from the end."""
    row: int
    """The token, among all rows."""
    token: tuple[int, int]
    """Its sequence and position."""
    context: int
    """Tokens of that sequence in the forward, without padding."""
    dtype: torch.dtype
    device: torch.device

    @property
    def width(self) -> int:
        return self.shape[self.axis]

    @property
    def row_count(self) -> int:
        return prod(self.shape) // self.width

    def place_at_token(self, vectors: torch.Tensor) -> torch.Tensor:
        """(n, *shape): each of `vectors` (n, width) at the token, zero elsewhere."""
        rows = torch.zeros(
            len(vectors), self.row_count, self.width, dtype=self.dtype, device=self.device
        )
        rows[:, self.row] = vectors.to(rows)
        lead = leading_sizes(self.shape, (self.axis,))
        return rows.reshape(len(vectors), *lead, self.width).movedim(-1, self.axis)

    def arrange_rows(self, rows: torch.Tensor) -> torch.Tensor:
        """(*shape): (rows, width) as they lie in the value."""
        lead = leading_sizes(self.shape, (self.axis,))
        return rows.reshape(*lead, self.width).movedim(-1, self.axis)

    def flatten_rows(self, value: torch.Tensor) -> torch.Tensor:
        """(rows, width): the inverse."""
        return value.movedim(self.axis, -1).reshape(self.row_count, self.width)

    def select_token(self, values: torch.Tensor) -> torch.Tensor:
        """(n, width): the token's of `values` (n, *shape)."""
        return values.movedim(self.axis, -1).reshape(len(values), -1, self.width)[:, self.row]


def find_stream_points(
    edges: GradientEdges, stack: StackStructure, depth: float = 1.0
) -> list[StreamPoint | str]:
    """Before every add what its skip operand is a copy of, and the end; or why there is none.

    The token is the one at `depth` of the first sequence, 1 the last.

    Where a norm stands on the stream after the last add, the end is what comes out of it.
    """
    points = [_find_point(edges, edges.stream_node(f.add), f, depth) for f in stack.adds]
    last = stack.adds[-1]
    closing = last.stream_norms[-1:]
    end = (closing[0].output or closing[0].node) if closing else last.add.node
    return [*points, _find_point(edges, end, last, depth)]


def _find_point(
    edges: GradientEdges, node: Node, facts: AddStructure, depth: float
) -> StreamPoint | str:
    edge = edges.find_edge(node)
    if edge is None:
        return "autograd does not follow the stream there"
    if facts.add.is_mixed:
        return "the lanes of the stream are mixed there"
    if facts.add.is_projected and node is not facts.add.node:
        return "the skip is transformed there"
    axis = feature_axis(facts.add.branches[-1])
    if len(node.shape) != len(facts.add.node.shape):
        axis = -1
    if node.shape[axis] != facts.add.node.shape[axis]:
        return "the features change places there"
    layout: TokenLayout = edges.layouts.layout_of(node)
    lead = leading_sizes(node.shape, (axis,))
    place = _select_token(layout.site_tokens(lead), prod(lead), depth)
    if place is None:
        return "which token is which is not known there"
    row, token, context = place
    known = edge.node._input_metadata[edge.output_nr]
    return StreamPoint(edge, node.shape, axis, row, token, context, known.dtype, known.device)


def _select_token(
    tokens: Tokens, rows: int, depth: float
) -> tuple[int, tuple[int, int], int] | None:
    """Row, sequence and position of the token at `depth` of the first sequence; its length."""
    if tokens.rows_per_token != 1 or rows == 0:
        return None
    real = np.arange(rows) if tokens.valid is None else tokens.valid.cpu().numpy()
    sequence, position = tokens.token_places(real)
    own = np.flatnonzero(sequence == sequence.min()) if len(real) else real
    if not len(own):
        return None
    ordered = own[position[own].argsort(kind="stable")]
    best = ordered[max(0, math.ceil(depth * len(ordered)) - 1)]
    return int(real[best]), (int(sequence[best]), int(position[best])), len(ordered)
