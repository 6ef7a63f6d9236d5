"""One token alone, many times over: what a span does to it where no token reads another.

A span that keeps tokens apart has the same Jacobian in a batch of copies of one token, and there a
single backward gives as many of its rows as there are copies. The model runs once on such a batch;
every add's sum is overwritten by what it was at the token, so that every span starts where it did.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn

from normdiag.errors import RunError
from normdiag.inputs.batch import Batch
from normdiag.measure.blocks.points import StreamPoint, find_stream_points
from normdiag.measure.passes.gradient_edges import GradientEdges, record_next_gradient_edges
from normdiag.structure.residual_adds import DetectedAdd

COPIES = 32


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
    """What to write, by operation, module and number of the add in that module."""
    _numbers: Counter[tuple[str, str]] = field(default_factory=Counter)

    def __call__(self, add: DetectedAdd, total: Tensor) -> None:
        place = _add_location(add)
        row = self.rows.pop((*place, self._numbers[place]), None)
        self._numbers[place] += 1
        if row is not None and total.shape[-1:] == row.shape:
            total.copy_(row)


def _add_location(add: DetectedAdd) -> tuple[str, str]:
    return add.node.op, add.node.frame.path


def run_copies(
    model: nn.Module, batch: Batch, edges: GradientEdges, sums: AddOutputs, depth: float = 1.0
) -> dict[str, list[StreamPoint | str]]:
    """Per stack its points in a forward of copies of one token; none where it goes otherwise.

    Call it inside `record_gradient_edges`, of whose forward on `batch`, one sequence of tokens,
    `edges` and `sums` are.
    """
    tokens: dict[DetectedAdd, int] = {}
    for stack in edges.stacks:
        for facts, point in zip(stack.adds, find_stream_points(edges, stack, depth), strict=False):
            if isinstance(point, StreamPoint) and point.axis == -1:
                tokens[facts.add] = point.row
    rows = {}
    numbers: Counter[tuple[str, str]] = Counter()
    for add, total in sums.adds:
        place = _add_location(add)
        if add in tokens:
            rows[*place, numbers[place]] = total.reshape(-1, total.shape[-1])[tokens[add]]
        numbers[place] += 1
    planting = _OutputOverwriter(rows)
    try:
        again = record_next_gradient_edges(model, _copy_last_token(batch), planting)
    except RunError:
        return {}
    if planting.rows:  # adds that did not run this time
        return {}
    return {
        name: find_stream_points(again, stack)
        for name, stack in again.sites.stacks.items()
        if name in edges.sites.stacks and len(stack.adds) == len(edges.sites.stacks[name].adds)
    }


def jacobian_from_copies(start: StreamPoint, end: StreamPoint) -> Tensor | None:
    """dy/dx of a span that keeps tokens apart, between two points of copies, in float64."""
    if not start.row_count == end.row_count == COPIES or start.width != end.width:
        return None
    parts = []
    for chunk in torch.split(torch.eye(end.width, device=end.device), COPIES):
        vectors = torch.zeros(COPIES, end.width, dtype=end.dtype, device=end.device)
        vectors[: len(chunk)] = chunk
        ends = (end.edge, start.edge)
        pulled = torch.autograd.grad(*ends, end.arrange_rows(vectors), retain_graph=True)[0]
        parts.append(start.flatten_rows(pulled)[: len(chunk)].double())
    return torch.cat(parts)


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
