"""Which loss a model is differentiated for: chosen by what goes in, what comes out and how it acts.

An output with as many features as the table that the ids were looked up in has rows predicts
tokens: the next one where it does not look ahead, else the ones that were masked. Another output
than the stream's width is a classifier's. A model without a head gets a random projection.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import nn

from normdiag.errors import RunError
from normdiag.graph import Graph
from normdiag.inputs.batch import Batch
from normdiag.inputs.truncation import truncate_batch
from normdiag.measure.gradients import objectives
from normdiag.measure.gradients.objectives import LossSettings, Objective
from normdiag.measure.gradients.reads_ahead import (
    floating_outputs,
    input_tensor,
    reads_ahead,
    real_tokens,
)
from normdiag.measure.passes.gradient_edges import GradientEdges, record_gradient_edges
from normdiag.structure.stack_structure import StackStructure
from normdiag.structure.token_lookups import find_token_lookups, has_cross_input

_TRIED = 16
"""Tokens on which it is tried what the output depends on."""
_UNTRIED = "not tried: the outputs are not finite"


class NoLossError(Exception):
    """Nothing of the output can be differentiated; says why."""


@dataclass(frozen=True, slots=True)
class _Output:
    """The output that is differentiated, and what the forward to it was."""

    which: int
    shape: tuple[int, ...]
    scores: tuple[str, ...]
    """The inputs of token ids that it may score."""
    has_source: bool
    """Whether it is a decoder's."""
    width: int | None
    """Of the last stack; without one nothing tells a class from a feature."""


@dataclass(slots=True)
class TriedTokens:
    """What one model did with the tokens that it was tried on last, for the next loss on them."""

    batch: Batch | None = None
    output: _Output | None = None
    ahead: dict[str, bool | None] = field(default_factory=dict)
    """By name of the input of ids, whether the output looks ahead in it."""

    def inspect_outputs(self, model: nn.Module, batch: Batch) -> _Output:
        """As `_inspect_outputs`, once for the same arguments."""
        if self.output is None or self.batch is None or not _have_same_inputs(self.batch, batch):
            self.output = _inspect_outputs(model, batch)
            self.batch, self.ahead = batch, {}
        return self.output

    def looks_ahead(self, model: nn.Module, batch: Batch, name: str, which: int) -> bool | None:
        """As `reads_ahead`, of the batch that was inspected last."""
        if name not in self.ahead:
            self.ahead[name] = reads_ahead(model, batch, name, which)
        return self.ahead[name]


def choose_objective(
    model: nn.Module, batch: Batch, choice: LossSettings, tokens: TriedTokens | None = None
) -> Objective:
    """The loss of `model` on `batch`, by what it does with the first few tokens of it.

    `tokens` remembers that from one batch of a model to the next that begins alike.

    Raises NoLossError where autograd follows the forward to no output, RunError where it fails.
    """
    tokens = tokens or TriedTokens()
    tried = truncate_batch(batch, _TRIED)
    try:
        output = tokens.inspect_outputs(model, tried)
    except RunError:
        if tried is batch:
            raise
        tried, output = batch, tokens.inspect_outputs(model, batch)
    which, shape = output.which, output.shape
    for name in output.scores:
        ahead = tokens.looks_ahead(model, tried, name, which)
        if not ahead:
            kind = "sequence-to-sequence" if output.has_source else "causal-lm"
            how = "tried" if ahead is False else _UNTRIED
            return objectives.next_token_loss(kind, batch, name, which, how)
    if output.scores:
        return objectives.masked_token_loss(batch, output.scores[-1], which, choice)
    if all(size == 1 for size in shape):
        return objectives.scalar_output_loss(batch, which)
    if output.width and len(shape) in (2, 3) and shape[-1] not in (1, output.width):
        return objectives.classification_loss(batch, shape[-1], which, choice)
    return objectives.random_projection_loss(batch, which, choice)


def _have_same_inputs(a: Batch, b: Batch) -> bool:
    """Whether a forward gets the same arguments: equal tensors, else the very same values."""
    mine, theirs = a.named_arguments, b.named_arguments
    return mine.keys() == theirs.keys() and all(
        torch.equal(value, theirs[name])
        if isinstance(value, torch.Tensor) and isinstance(theirs[name], torch.Tensor)
        else value is theirs[name]
        for name, value in mine.items()
    )


def _inspect_outputs(model: nn.Module, batch: Batch) -> _Output:
    """Of several outputs, the first into which most of the adds flow; scores of tokens go first."""
    with record_gradient_edges(model, batch) as edges:
        outputs = floating_outputs(edges.output)
        reach = {i: _count_reached_adds(t, edges) for i, t in enumerate(outputs) if t.requires_grad}
        if not reach:
            raise NoLossError(
                "autograd does not follow the forward to its output"
                if outputs
                else "the output holds no floating-point tensor"
            )
        best = [i for i, adds in reach.items() if adds == max(reach.values())]
        scores = {i: _scored_inputs(batch, outputs[i], edges.graph) for i in best}
        which = min(best, key=lambda i: (not scores[i], outputs[i].dim() < 2, i))
        return _Output(
            which=which,
            shape=tuple(outputs[which].shape),
            scores=scores[which],
            has_source=has_cross_input(edges.graph, edges.stacks),
            width=_last_stack_width(edges.stacks),
        )


def _count_reached_adds(output: torch.Tensor, edges: GradientEdges) -> int:
    """How many residual adds autograd finds behind `output`."""
    visited = set()
    front = [output.grad_fn]
    while front:
        node = front.pop()
        if node is not None and node not in visited:
            visited.add(node)
            front += [before for before, _ in node.next_functions]
    return sum(
        add_edges.out is not None and add_edges.out.node in visited
        for add_edges in edges.adds.values()
    )


def _scored_inputs(batch: Batch, output: torch.Tensor, graph: Graph) -> tuple[str, ...]:
    """The inputs of ids, of two tokens at least, that `output` may score: it has a place for every
    token and a feature for every row of their table."""
    names: dict[str, None] = {}
    for lookup in find_token_lookups(graph):
        ids = input_tensor(batch, lookup.name)
        if ids is None or output.dim() < 2 or not lookup.table_rows == output.shape[-1] > 1:
            continue
        shape = tuple(ids.shape)
        if shape == output.shape[:-1] and real_tokens(batch, lookup.name, shape)[..., 1:].any():
            names[lookup.name] = None
    return tuple(names)


def _last_stack_width(stacks: Sequence[StackStructure]) -> int | None:
    ends = {stack.adds[-1].add.index: stack.chain.width for stack in stacks}
    return ends[max(ends)] if ends else None
