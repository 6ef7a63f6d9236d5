"""The values of a stream between its adds: where it is cut into spans, and where the token lies."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from math import prod

import numpy as np
import torch
from torch.autograd.graph import GradientEdge

from normdiag.graph import Node
from normdiag.measure.blocks.followed_rows import find_row_path, follow_rows, keep_rows
from normdiag.measure.passes.gradient_edges import GradientEdges
from normdiag.measure.statistics.rows import TokenLayout, Tokens, leading_sizes
from normdiag.structure.feature_axis import axis_in
from normdiag.structure.lane_values import find_lanes_value
from normdiag.structure.residual_adds import DetectedAdd
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
    lane_axis: int | None = None
    """Of the streams, counted from the end, where the value holds several."""
    lost: int = 0
    """How often the token was lost on the way and another one was taken."""

    @property
    def width(self) -> int:
        """Number of features of the token, of all streams."""
        return prod(self.shape[axis] for axis in self._axes)

    @property
    def _axes(self) -> tuple[int, ...]:
        return (self.axis,) if self.lane_axis is None else (self.lane_axis, self.axis)

    @property
    def row_count(self) -> int:
        return prod(self.shape) // self.width

    def place_at_token(self, vectors: torch.Tensor) -> torch.Tensor:
        """(n, *shape): each of `vectors` (n, width) at the token, zero elsewhere."""
        rows = torch.zeros(
            len(vectors), self.row_count, self.width, dtype=self.dtype, device=self.device
        )
        rows[:, self.row] = vectors.to(rows)
        return self._from_rows(rows, (len(vectors),))

    def arrange_rows(self, rows: torch.Tensor) -> torch.Tensor:
        """(*shape): (rows, width) as they lie in the value."""
        return self._from_rows(rows, ())

    def flatten_rows(self, value: torch.Tensor) -> torch.Tensor:
        """(rows, width): the inverse."""
        return self._features_last(value).reshape(self.row_count, self.width)

    def select_token(self, values: torch.Tensor) -> torch.Tensor:
        """(n, width): the token's of `values` (n, *shape)."""
        rows = self._features_last(values).reshape(len(values), -1, self.width)
        return rows[:, self.row]

    def _features_last(self, values: torch.Tensor) -> torch.Tensor:
        return values.movedim(self._axes, tuple(range(-len(self._axes), 0)))

    def _from_rows(self, rows: torch.Tensor, batch: tuple[int, ...]) -> torch.Tensor:
        lead = leading_sizes(self.shape, self._axes)
        features = (self.shape[axis] for axis in self._axes)
        return rows.reshape(*batch, *lead, *features).movedim(
            tuple(range(-len(self._axes), 0)), self._axes
        )


def find_stream_points(
    edges: GradientEdges, stack: StackStructure, depth: float = 1.0
) -> list[StreamPoint | str]:
    """Before every add what its skip operand is a copy of, and the end; or why there is none.

    The token is the one at `depth` of the first sequence, 1 the last; from add to add it is
    followed through the views of the skip path.

    Where a norm stands on the stream after the last add, the end is what comes out of it.
    """
    last = stack.adds[-1]
    closing = last.stream_norms[-1:]
    end = (closing[0].output or closing[0].node) if closing else last.add.node
    nodes = [*(_find_start(edges, f) for f in stack.adds), end]
    points: list[StreamPoint | str] = []
    for i, (node, facts) in enumerate(zip(nodes, [*stack.adds, last], strict=True)):
        point = _find_point(edges, node, facts, depth)
        before = points[-1] if points else None
        if isinstance(before, StreamPoint) and isinstance(point, StreamPoint):
            point = _follow_token(before, nodes[i - 1], point, node, stack.adds[i - 1].add)
        points.append(point)
    return points


def _follow_token(
    before: StreamPoint, start: Node, point: StreamPoint, end: Node, add: DetectedAdd
) -> StreamPoint:
    """The point at the token of the one before, where the way from one to the other is known."""
    same = replace(point, lost=before.lost)
    path = find_row_path(end, start, add)
    if path is None or point.lane_axis is not None:
        return same
    row = before.row
    if not keep_rows(path, start):
        rows = follow_rows(path, start, before.axis)
        found = None if rows is None else (point.flatten_rows(rows) == row).all(-1).nonzero()
        if found is None or found.numel() != 1:  # cut off, repeated, or moved by data
            return replace(same, lost=before.lost + 1)
        row = int(found)
    return replace(same, row=row, token=before.token, context=before.context)


def _find_start(edges: GradientEdges, facts: AddStructure) -> Node:
    return edges.stream_node(facts.add) if facts.lanes is None else find_lanes_value(facts.add)


def _find_point(
    edges: GradientEdges, node: Node, facts: AddStructure, depth: float
) -> StreamPoint | str:
    edge = edges.find_edge(node)
    if edge is None:
        return "autograd does not follow the stream there"
    lanes = facts.lanes
    if lanes is not None and node.shape != facts.add.node.shape:
        return "the streams change places there"
    if lanes is not None and lanes.axis is None and not lanes.is_within_features:
        return "the streams lie among the sequences there"
    lane_axis = None if lanes is None else lanes.axis
    if facts.add.is_projected and node is not facts.add.node:
        return "the skip is transformed there"
    axis = axis_in(node.shape, facts.add)
    if node.shape[axis] != facts.add.node.shape[axis]:
        return "the features change places there"
    layout: TokenLayout = edges.layouts.layout_of(node)
    lead = leading_sizes(node.shape, (axis,) if lane_axis is None else (lane_axis, axis))
    place = _select_token(layout.site_tokens(lead), prod(lead), depth)
    if place is None:
        return "which token is which is not known there"
    row, token, context = place
    known = edge.node._input_metadata[edge.output_nr]
    return StreamPoint(
        edge=edge,
        shape=node.shape,
        axis=axis,
        row=row,
        token=token,
        context=context,
        dtype=known.dtype,
        device=known.device,
        lane_axis=lane_axis,
    )


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
