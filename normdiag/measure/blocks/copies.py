"""One token alone, many times over: what a span does to it where no token reads another.

A span that keeps tokens apart has the same Jacobian in a batch of copies of one token, and there a
single backward gives as many of its rows as there are copies. The model runs once on such a batch,
of one token or of several; every add's sum is overwritten by what it was at the token, so that
every span starts where it did. Where the copies have a past (`prefixes`), they read what the token
reads, and attention too has the Jacobian that it has at the token.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn

from normdiag.errors import RunError
from normdiag.inputs.batch import Batch
from normdiag.measure.blocks.points import StreamPoint, find_stream_points
from normdiag.measure.blocks.prefixes import copy_with_past
from normdiag.measure.passes.gradient_edges import GradientEdges, record_next_gradient_edges
from normdiag.structure.residual_adds import DetectedAdd

COPIES = 24


@dataclass(slots=True)
class AddOutputs:
    """Listens to a forward: every add's sum, in order."""

    adds: list[tuple[DetectedAdd, Tensor]] = field(default_factory=list)

    def __call__(self, add: DetectedAdd, total: Tensor) -> None:
        self.adds.append((add, total.detach().clone()))


@dataclass(slots=True)
class _OutputOverwriter:
    """Overwrites the sums of adds, below autograd: the graph is the same, its values are not."""

    rows: dict[tuple[str, str, int], Tensor]
    """What to write, (tokens, features), by operation, module and number of the add in it."""
    _numbers: Counter[tuple[str, str]] = field(default_factory=Counter)

    def __call__(self, add: DetectedAdd, total: Tensor) -> None:
        place = _add_location(add)
        row = self.rows.pop((*place, self._numbers[place]), None)
        self._numbers[place] += 1
        if row is None or total.shape[-1:] != row.shape[-1:]:
            return
        if len(row) == 1:
            total.copy_(row[0])
        elif len(total) == len(row) * COPIES:
            groups = row.repeat_interleave(COPIES, 0)
            total.copy_(groups.reshape(len(total), *(1 for _ in total.shape[2:]), row.shape[-1]))


def _add_location(add: DetectedAdd) -> tuple[str, str]:
    return add.node.op, add.node.frame.path


@dataclass(slots=True)
class CopiedStack:
    """One stack in a forward of copies: a group of them for each token."""

    points: list[StreamPoint | str]
    tokens: int
    has_past: bool = False
    """Whether the copies read what their token reads."""
    _held: dict[tuple[int, int], dict[int, Tensor]] = field(default_factory=dict)
    """Of the span that was asked for last, what is to be fetched yet."""

    def compute_jacobian(self, first: int, last: int, token: int) -> Tensor | None:
        """dy/dx between two points at one of the tokens, in float64; None where there is none.

        All tokens' come from the same backward passes; each is held until it is fetched or another
        span is asked for.
        """
        start, end = self.points[first], self.points[last]
        if isinstance(start, str) or isinstance(end, str):
            return None
        if token not in self._held.get((first, last), {}):
            found = jacobians_from_copies(start, end, self.tokens)
            if found is None:
                return None
            self._held = {(first, last): dict(enumerate(found))}
        return self._held[first, last].pop(token)


def run_copies(
    model: nn.Module,
    batch: Batch,
    edges: GradientEdges,
    sums: AddOutputs,
    depths: Sequence[float] = (1.0,),
    *,
    with_past: bool = False,
) -> dict[str, CopiedStack]:
    """Each stack in a forward of copies of the tokens at `depths`; none where it goes otherwise.

    Call it inside `record_gradient_edges`, of whose forward on `batch`, one sequence of tokens,
    `edges` and `sums` are.
    """
    tokens: dict[DetectedAdd, list[int]] = {}
    for stack in edges.stacks:
        at_depths = [find_stream_points(edges, stack, depth) for depth in depths]
        for facts, *points in zip(stack.adds, *at_depths, strict=False):
            rows = [p.row for p in points if isinstance(p, StreamPoint) and p.axis == -1]
            if len(rows) == len(depths):
                tokens[facts.add] = rows
    copied: Batch | None = _copy_last_token(batch)
    if with_past:
        positions = sorted({tuple(rows) for rows in tokens.values()})
        copied = None if len(positions) != 1 else copy_with_past(model, batch, positions[0], COPIES)
    if copied is None:
        return {}
    planting = _OutputOverwriter(_find_planted_rows(sums, tokens))
    try:
        again = record_next_gradient_edges(model, copied, planting)
    except RunError:
        return {}
    if planting.rows:  # adds that did not run this time
        return {}
    return {
        name: CopiedStack(find_stream_points(again, stack), len(depths), with_past)
        for name, stack in again.sites.stacks.items()
        if name in edges.sites.stacks and len(stack.adds) == len(edges.sites.stacks[name].adds)
    }


def _find_planted_rows(
    sums: AddOutputs, tokens: Mapping[DetectedAdd, list[int]]
) -> dict[tuple[str, str, int], Tensor]:
    """What every add's sum was at its tokens."""
    rows = {}
    numbers: Counter[tuple[str, str]] = Counter()
    for add, total in sums.adds:
        place = _add_location(add)
        if add in tokens:
            rows[*place, numbers[place]] = total.reshape(-1, total.shape[-1])[tokens[add]]
        numbers[place] += 1
    return rows


def jacobians_from_copies(start: StreamPoint, end: StreamPoint, tokens: int) -> list[Tensor] | None:
    """dy/dx of a span that keeps sequences apart, between two points of copies, in float64.

    One for each of the `tokens`, of which there are as many copies each.
    """
    if not start.row_count == end.row_count == tokens * COPIES or start.width != end.width:
        return None
    parts = []
    for chunk in torch.split(torch.eye(end.width, device=end.device), COPIES):
        vectors = torch.zeros(tokens, COPIES, end.width, dtype=end.dtype, device=end.device)
        vectors[:, : len(chunk)] = chunk
        ends = (end.edge, start.edge)
        placed = end.arrange_rows(vectors.flatten(0, 1))
        pulled = torch.autograd.grad(*ends, placed, retain_graph=True)[0]
        rows = start.flatten_rows(pulled).reshape(tokens, COPIES, -1)
        parts.append(rows[:, : len(chunk)])
    return [each.double() for each in torch.cat(parts, 1)]


def _copy_last_token(batch: Batch) -> Batch:
    """Many sequences of one token: which one does not matter, its values will be overwritten."""

    def repeat_last(value: Any) -> Any:
        if not isinstance(value, Tensor):
            return value
        last = value[:, -1:]
        return last.expand(COPIES, *last.shape[1:]).clone()

    return replace(
        batch,
        inputs={name: repeat_last(value) for name, value in batch.inputs.items()},
        args=tuple(repeat_last(value) for value in batch.args),
    )
