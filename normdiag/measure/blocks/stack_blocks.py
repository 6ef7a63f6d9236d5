"""The blocks of one stack at one token: every add, every layer, and the whole."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import groupby
from math import prod
from typing import Literal

import torch

from normdiag.evidence.architecture import layer_id
from normdiag.evidence.blocks import BlockJacobian
from normdiag.evidence.stream import TokenPosition
from normdiag.measure.blocks.block_numbers import (
    BlockSite,
    estimate_disagreement,
    summarise_matrix,
    summarise_products,
)
from normdiag.measure.blocks.copies import CopiedStack
from normdiag.measure.blocks.paths import TokenJacobian, compose_jacobians
from normdiag.measure.blocks.points import StreamPoint, find_stream_points
from normdiag.measure.blocks.spans import StreamSpan, is_followed
from normdiag.measure.blocks.structural_zeros import count_structural_zeros
from normdiag.measure.passes.gradient_edges import GradientEdges
from normdiag.structure.activations import find_activated_value
from normdiag.structure.stack_structure import StackStructure

WIDEST, MOST_WORK = 1024, 8 * 1024**3
"""Dense up to this width H, and while H^3 tokens, to which its cost is proportional, is no more.

There it costs as much as the iteration, which grows with H^2 only: some 3 s of one core a layer.
"""
_NEAR = 1e-4
"""How far a Jacobian from copies may be off, relative to its singular values' mean."""


class _ImpossibleError(Exception):
    """A span that has no Jacobian, and why."""


@dataclass(frozen=True, slots=True)
class _BlockRange:
    """The adds first .. last - 1 of a stack."""

    id: str
    span: Literal["add", "layer", "stack"]
    first: int
    last: int
    layer: int | None = None


@dataclass(slots=True)
class StackBlocks:
    """The blocks of one stack, from the first add to the last."""

    edges: GradientEdges
    name: str
    stack: StackStructure
    start: TokenPosition
    """The probe's first token."""
    advance: Callable[[], None]
    copies: CopiedStack | None
    """The stack among copies of tokens, where there are any."""
    depth: float
    """Of the token in its sequence."""
    number: int = 0
    """Of the token among those that were copied."""
    is_causal: bool = False
    """Whether no token up to this one reads a later one: those behind it are as if not there."""
    blocks: dict[str, BlockJacobian] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)
    """Why, by id."""
    _followed: dict[int, bool] = field(default_factory=dict)
    """Of each add, whether autograd follows all of its branches."""
    _points: list[StreamPoint | str] = field(init=False)

    def __post_init__(self) -> None:
        self._points = find_stream_points(self.edges, self.stack, self.depth)

    def measure_blocks(self) -> Iterator[None]:
        """Adds make layers and layers make the stack, where the product is the whole.

        Yields after each block: tokens that share copies are measured side by side.
        """
        whole: TokenJacobian | None = None
        gains: list[float | None] = []
        for n, layer in enumerate(self._iterate_layers()):
            path: TokenJacobian | None = None
            for add in self._iterate_adds(layer):
                own = self._measure_block(add)
                path = own if add.first == layer.first else compose_jacobians(path, own)
                yield
            path = self._measure_block(layer, path)
            yield
            whole = path if n == 0 else compose_jacobians(whole, path)
            gains.append(self.blocks[layer.id].sigma_max if layer.id in self.blocks else None)
        stack = _BlockRange(self.name, "stack", 0, len(self.stack.adds))
        self._measure_block(stack, whole)
        if stack.id in self.blocks and None not in gains:
            product = prod(gain for gain in gains if gain is not None)
            self.blocks[stack.id] = replace(self.blocks[stack.id], product=product)

    def _iterate_layers(self) -> Iterator[_BlockRange]:
        numbered = enumerate(f.layer for f in self.stack.adds)
        for layer, run in groupby(numbered, key=lambda pair: pair[1]):
            own = [i for i, _ in run]
            yield _BlockRange(layer_id(self.name, layer), "layer", own[0], own[-1] + 1, layer)

    def _iterate_adds(self, layer: _BlockRange) -> Iterator[_BlockRange]:
        for i in range(layer.first, layer.last):
            id = self.edges.sites.adds[self.stack.adds[i].add]
            yield _BlockRange(id, "add", i, i + 1, layer.layer)

    def _measure_block(
        self, cut: _BlockRange, parts: TokenJacobian | None = None
    ) -> TokenJacobian | None:
        """File the block of one span. Its Jacobian, where that is held."""
        path = None
        try:
            span = self._build_span(cut)
            place = self._describe_site(cut, span)
            held = self._compute_matrix(span, cut, parts)
            sample = span.pull_back(torch.ones(1, span.width)) if held is None else held[0].jacobian
            if not bool(sample.isfinite().all()):
                raise _ImpossibleError("the derivative is not finite there")
            if held is None:
                block = summarise_products(span, place)
            else:
                path, off = held
                block = summarise_matrix(path.jacobian, place, span.dtype, off)
            if self._passes_activation(cut):  # what it shuts is lost by design
                block = replace(block, sigma_min=None, kappa=None, is_bound=False)
            self.blocks[cut.id] = block
        except _ImpossibleError as error:
            self.skipped[cut.id] = str(error)
        except (RuntimeError, NotImplementedError) as error:  # of torch's backward
            why = str(error).split("\n", 1)[0]
            self.skipped[cut.id] = f"torch cannot differentiate it: {why}"
        self.advance()
        return path

    def _passes_activation(self, cut: _BlockRange) -> bool:
        """Whether the stream itself passes an activation between the ends."""
        links = self.stack.chain.links[cut.first + 1 : cut.last + 1]
        return any(find_activated_value(join) is not None for link in links for join in link.joins)

    def _build_span(self, cut: _BlockRange) -> StreamSpan:
        """Raises _ImpossibleError where the ends do not match."""
        start, end = self._points[cut.first], self._points[cut.last]
        for point in (start, end):
            if isinstance(point, str):
                raise _ImpossibleError(point)
        assert isinstance(start, StreamPoint)
        assert isinstance(end, StreamPoint)
        if start.width != end.width:
            raise _ImpossibleError(
                f"the stream's width goes from {start.width} to {end.width} there"
            )
        if (start.row_count, start.token, start.lost) != (end.row_count, end.token, end.lost):
            raise _ImpossibleError("tokens change places or number there")
        for k in range(cut.first, cut.last):
            if k not in self._followed:
                self._followed[k] = is_followed(self.edges, self.stack.adds[k].add)
            if not self._followed[k]:
                raise _ImpossibleError("autograd does not follow a branch there")
        return StreamSpan(start, end)

    def _compute_matrix(
        self, span: StreamSpan, cut: _BlockRange, parts: TokenJacobian | None
    ) -> tuple[TokenJacobian, float] | None:
        """The Jacobian and how far off it may be; None where it is too large to be held."""
        if span.width > WIDEST or span.width**3 * span.end.row_count > MOST_WORK:
            return None
        if parts is not None and parts.is_whole:
            return parts, estimate_disagreement(span, parts.jacobian)
        if cut.span == "stack":
            return None
        leaves, returns = (False, True) if self.is_causal else span.test_isolation()
        if self.copies is not None and (self.copies.has_past or not (leaves or returns)):
            alone = self._compute_from_copies(self.copies, span, cut, returns)
            if alone is not None:
                return alone
        return TokenJacobian(span.dense_jacobian(), leaves, returns), 0.0

    def _compute_from_copies(
        self, copies: CopiedStack, span: StreamSpan, cut: _BlockRange, returns: bool
    ) -> tuple[TokenJacobian, float] | None:
        """From copies of the token, where their Jacobian proves to be that of the span."""
        matrix = copies.compute_jacobian(cut.first, cut.last, self.number)
        if matrix is None:
            return None
        off = estimate_disagreement(span, matrix)
        rms = float(matrix.square().mean(0).sum().sqrt())
        return (TokenJacobian(matrix, False, returns), off) if off < _NEAR * rms else None

    def _describe_site(self, cut: _BlockRange, span: StreamSpan) -> BlockSite:
        adds = self.stack.adds
        links = [link.norms for link in self.stack.chain.links[cut.first + 1 : cut.last + 1]]
        if cut.last == len(adds):
            links.append(adds[-1].stream_norms[-1:])
        norms = [norm for passed in links for norm in passed]
        is_plain = cut.span != "stack" and not norms
        for facts in adds[cut.first : cut.last]:
            is_scaled = facts.skip_factors or facts.is_interpolation or facts.add.is_gated
            is_plain = is_plain and not (is_scaled or facts.add.is_mixed)
        sequence, position = span.end.token
        return BlockSite(
            span=cut.span,
            token=TokenPosition(
                sequence=self.start.sequence + sequence, position=self.start.position + position
            ),
            layer=cut.layer,
            context=self._count_context(span.end),
            zeros=count_structural_zeros(norms, self.edges.learned, span.dtype),
            is_plain=is_plain,
        )

    def _count_context(self, end: StreamPoint) -> int:
        """Tokens that have a part in the numbers: in a causal model, those up to this one."""
        return max(1, math.ceil(self.depth * end.context)) if self.is_causal else end.context
