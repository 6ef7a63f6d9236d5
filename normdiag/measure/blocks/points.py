"""The values of a stream between its adds: where it is cut into spans, and where the token lies."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np
import torch
from torch.autograd.graph import GradientEdge

from normdiag.graph import Node
from normdiag.measure.passes.gradient_edges import Taps
from normdiag.measure.statistics.rows import TokenLayout, Tokens
from normdiag.structure.attachments import AddStructure, StackStructure
from normdiag.structure.features import feature_axis


@dataclass(frozen=True, slots=True)
class Point:
    """One value of the stream, seen at one of its tokens."""

    edge: GradientEdge
    shape: tuple[int, ...]
    axis: int
    """Of the features, counted from the end."""
    row: int
    """The token, among all rows."""
    token: tuple[int, int]
    """Its sequence and position."""
    dtype: torch.dtype
    device: torch.device

    @property
    def width(self) -> int:
        return self.shape[self.axis]

    @property
    def rows(self) -> int:
        return prod(self.shape) // self.width

    def put(self, vectors: torch.Tensor) -> torch.Tensor:
        """(n, *shape): each of `vectors` (n, width) at the token, zero elsewhere."""
        rows = torch.zeros(
            len(vectors), self.rows, self.width, dtype=self.dtype, device=self.device
        )
        rows[:, self.row] = vectors.to(rows)
        lead = [size for i, size in enumerate(self.shape) if i != self.axis + len(self.shape)]
        return rows.reshape(len(vectors), *lead, self.width).movedim(-1, self.axis)

    def spread(self, rows: torch.Tensor) -> torch.Tensor:
        """(*shape): (rows, width) as they lie in the value."""
        lead = [size for i, size in enumerate(self.shape) if i != self.axis + len(self.shape)]
        return rows.reshape(*lead, self.width).movedim(-1, self.axis)

    def flat(self, value: torch.Tensor) -> torch.Tensor:
        """(rows, width): the inverse."""
        return value.movedim(self.axis, -1).reshape(self.rows, self.width)

    def at(self, values: torch.Tensor) -> torch.Tensor:
        """(n, width): the token's of `values` (n, *shape)."""
        return values.movedim(self.axis, -1).reshape(len(values), -1, self.width)[:, self.row]


def points_of(taps: Taps, stack: StackStructure) -> list[Point | str]:
    """Before every add what its skip operand is a copy of, and the end; or why there is none.

    Where a norm stands on the stream after the last add, the end is what comes out of it.
    """
    points = [_point(taps, taps.stream(f.add), f) for f in stack.adds]
    last = stack.adds[-1]
    closing = last.stream_norms[-1:]
    end = (closing[0].output or closing[0].node) if closing else last.add.node
    return [*points, _point(taps, end, last)]


def _point(taps: Taps, node: Node, facts: AddStructure) -> Point | str:
    edge = taps.edge(node)
    if edge is None:
        return "autograd does not follow the stream there"
    if facts.add.is_mixed:
        return "the lanes of the stream are mixed there"
    axis = feature_axis(facts.add.branches[-1])
    if len(node.shape) != len(facts.add.node.shape):
        axis = -1
    if node.shape[axis] != facts.add.node.shape[axis]:
        return "the features change places there"
    layout: TokenLayout = taps.layouts.of(node)
    lead = tuple(size for i, size in enumerate(node.shape) if i != axis + len(node.shape))
    found = _last_token(layout.tokens(lead), prod(lead))
    if found is None:
        return "which token is which is not known there"
    row, token = found
    known = edge.node._input_metadata[edge.output_nr]
    return Point(edge, node.shape, axis, row, token, known.dtype, known.device)


def _last_token(tokens: Tokens, rows: int) -> tuple[int, tuple[int, int]] | None:
    """Row, sequence and position of the first sequence's last token."""
    if tokens.per_token != 1 or rows == 0:
        return None
    real = np.arange(rows) if tokens.valid is None else tokens.valid.cpu().numpy()
    sequence, position = tokens.places(real)
    own = np.flatnonzero(sequence == sequence.min()) if len(real) else real
    if not len(own):
        return None
    best = own[position[own].argmax()]
    return int(real[best]), (int(sequence[best]), int(position[best]))
