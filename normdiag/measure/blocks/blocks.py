"""Block Jacobians: what every add, every layer and every whole stack does to a small change."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from torch import nn
from torch.utils._python_dispatch import _disable_current_modes

from normdiag.errors import RunError
from normdiag.evidence.architecture import Architecture, title_stack
from normdiag.evidence.blocks import BlockJacobian
from normdiag.evidence.coverage import SkippedMeasurement
from normdiag.evidence.stream import TokenPosition
from normdiag.inputs.batch import Batch
from normdiag.inputs.truncation import count_positions, first_token_position, truncate_batch
from normdiag.measure.blocks.block_numbers import summarise_tokens
from normdiag.measure.blocks.copies import AddOutputs, CopiedStack, run_copies
from normdiag.measure.blocks.points import StreamPoint, find_stream_points
from normdiag.measure.blocks.spans import StreamSpan
from normdiag.measure.blocks.stack_blocks import WIDEST, StackBlocks
from normdiag.measure.passes.gradient_edges import GradientEdges, record_gradient_edges
from normdiag.measure.passes.half_products import fast_half_products
from normdiag.structure.stack_structure import StackStructure

POSITIONS = 8
"""Tokens of context for a causal model: the cost of a dense Jacobian grows with each."""
WHOLE_POSITIONS = 32
"""The same where tokens see later ones; the last token, such as a [SEP], is kept."""
DEPTHS = (0.25, 0.5, 0.75, 1.0)
"""The tokens, as shares of the sequence."""
_WORTH = 1 << 30
"""Products of H^3, tokens and adds from which a forward of copies is worth while."""


def measure_blocks(
    model: nn.Module,
    batch: Batch,
    advance: Callable[[], None],
    positions: int = POSITIONS,
    depths: Sequence[float] = DEPTHS,
) -> tuple[dict[str, BlockJacobian], tuple[SkippedMeasurement, ...]]:
    """Measure the blocks of `model` at tokens of the first sequence, at `depths` of its context.

    In a causal model the context of each is the tokens up to it, among the first `positions`: it is
    run once where it keeps a past, else on each context. Where tokens see later ones the context is
    the whole sequence, up to `WHOLE_POSITIONS` tokens.

    Returns:
        The blocks by id of an add, "<stack>/layer#k" and id of a stack, as medians over the
        tokens; and what could not be measured at any token, with the reason. `advance` is called
        `count_spans(architecture)` times for each of `depths`.
    """
    blocks = _TokenBlocks(model, batch, advance)
    short = truncate_batch(batch, positions)
    try:
        with record_gradient_edges(model, short, blocks.sums) as edges:
            is_causal = short is not batch and not _sees_later_tokens(edges)
            is_done = is_causal and blocks.measure_together(edges, short, depths)
            if (is_causal or short is batch) and not is_done:
                blocks.measure_tokens(edges, short, (1.0,) if is_causal else depths)
        if is_done:
            pass
        elif is_causal:
            length = count_positions(short)
            for size in (max(1, math.ceil(depth * length)) for depth in depths):
                if size < length:
                    blocks.run_context(truncate_batch(batch, size), (1.0,))
        elif short is not batch:
            size = max(positions, WHOLE_POSITIONS)
            blocks.run_context(truncate_batch(batch, size, keeps_last=True), depths)
    except RunError as error:  # its hint speaks of inputs that the user gave
        cut = "" if short is batch else " and the inputs cut short"
        why = f"with autograd on{cut}, {error.what}"
        return {}, (SkippedMeasurement(what="Jacobians of blocks", why=why),)
    return blocks.summarise_blocks(), blocks.list_skipped()


def count_spans(architecture: Architecture) -> int:
    """How many spans there are."""
    adds = architecture.residual_adds
    return len(adds) + len({(a.stack, a.layer) for a in adds}) + len(architecture.stacks)


def _sees_later_tokens(edges: GradientEdges) -> bool:
    """Whether in some stack a token in the middle reads what comes after it."""
    for stack in edges.stacks:
        points = find_stream_points(edges, stack, 0.5)
        start, end = points[0], points[-1]
        if isinstance(start, StreamPoint) and isinstance(end, StreamPoint):
            try:
                with _disable_current_modes():  # only a forward writes in place
                    reads_later = StreamSpan(start, end).reads_later_rows()
            except (RuntimeError, NotImplementedError):
                continue  # it has no derivative: that is said where its blocks are measured
            if reads_later:
                return True
    return False


def _is_closed_before(edges: GradientEdges, depths: Sequence[float]) -> bool:
    """Whether in every stack each token at `depths`, and what comes before it, reads none later.

    False also where that is not known: rows change places, or there are other sequences.
    """
    for stack in edges.stacks:
        for depth in depths:
            points = [p for p in find_stream_points(edges, stack, depth) if not isinstance(p, str)]
            if len(points) <= len(stack.adds):
                return False
            places = {(p.row, p.token, p.row_count, p.context, p.lost, p.width) for p in points}
            if len(places) > 1 or points[0].row_count != points[0].context:
                return False
            try:
                with _disable_current_modes():  # only a forward writes in place
                    if not StreamSpan(points[0], points[-1]).is_closed_before():
                        return False
            except (RuntimeError, NotImplementedError):
                return False
    return True


@dataclass(slots=True)
class _TokenBlocks:
    """The blocks of a model at one token after the other."""

    model: nn.Module
    batch: Batch
    advance: Callable[[], None]
    sums: AddOutputs = field(default_factory=AddOutputs)
    """Of the forward that is being differentiated."""
    _measured: dict[str, list[BlockJacobian]] = field(default_factory=dict)
    _skipped: dict[str, str] = field(default_factory=dict)
    """Why, by id."""

    def run_context(self, context: Batch, depths: Sequence[float]) -> None:
        """Run the model on `context` and measure at the tokens at `depths` of it."""
        self.sums.adds.clear()
        with record_gradient_edges(self.model, context, self.sums) as edges:
            self.measure_tokens(edges, context, depths)

    def measure_tokens(self, edges: GradientEdges, context: Batch, depths: Sequence[float]) -> None:
        """Measure at the tokens at `depths` of a forward on `context`."""
        is_copied = context is not self.batch and _is_worth_copying(edges)
        for depth in depths:
            copies = (
                run_copies(self.model, context, edges, self.sums, (depth,)) if is_copied else {}
            )
            self._measure_stacks(edges, context, (depth,), copies)

    def measure_together(
        self, edges: GradientEdges, context: Batch, depths: Sequence[float]
    ) -> bool:
        """Measure a causal model at all tokens in one forward; False where it does not allow that.

        It does where copies of the tokens have a past: without them each token costs as much as the
        whole context.
        """
        if not _is_worth_copying(edges) or not _is_closed_before(edges, depths):
            return False
        copies = run_copies(self.model, context, edges, self.sums, depths, with_past=True)
        if copies.keys() != edges.sites.stacks.keys():
            return False
        self._measure_stacks(edges, context, depths, copies, is_causal=True)
        return True

    def _measure_stacks(
        self,
        edges: GradientEdges,
        context: Batch,
        depths: Sequence[float],
        copies: Mapping[str, CopiedStack],
        *,
        is_causal: bool = False,
    ) -> None:
        start = TokenPosition(
            sequence=self.batch.rows[0] if self.batch.rows else 0,
            position=first_token_position(self.batch) if context is not self.batch else 0,
        )
        for name, stack in edges.sites.stacks.items():
            tokens = [
                StackBlocks(
                    edges, name, stack, start, self.advance, copies.get(name), depth, k, is_causal
                )
                for k, depth in enumerate(depths)
            ]
            # only a forward writes in place
            with _disable_current_modes(), fast_half_products(self.model):
                for _ in zip(*(token.measure_blocks() for token in tokens), strict=True):
                    pass
            for token in tokens:
                for id, block in token.blocks.items():
                    self._measured.setdefault(id, []).append(block)
                self._skipped |= token.skipped

    def summarise_blocks(self) -> dict[str, BlockJacobian]:
        """The medians over the tokens."""
        return {id: summarise_tokens(blocks) for id, blocks in self._measured.items()}

    def list_skipped(self) -> tuple[SkippedMeasurement, ...]:
        """What was measured at no token, by reason."""
        reasons: dict[str, list[str]] = {}
        for id, why in self._skipped.items():
            if id not in self._measured:
                reasons.setdefault(why, []).append(id)
        return tuple(
            SkippedMeasurement(what=f"Jacobians of {_join_names(names)}", why=why)
            for why, names in reasons.items()
        )


def _is_worth_copying(edges: GradientEdges) -> bool:
    return any(_costs_much(stack) for stack in edges.stacks)


def _costs_much(stack: StackStructure) -> bool:
    width = stack.chain.width
    if any(facts.lanes is not None for facts in stack.adds):
        return False  # a token is several rows there
    return width <= WIDEST and width**3 * POSITIONS * len(stack.adds) > _WORTH


def _join_names(names: list[str]) -> str:
    return ", ".join(map(title_stack, names[:4])) + (
        f" and {len(names) - 4} more" if len(names) > 4 else ""
    )
