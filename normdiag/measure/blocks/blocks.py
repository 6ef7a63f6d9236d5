"""Block Jacobians: what every add, every layer and every whole stack does to a small change."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import groupby
from math import prod
from typing import Literal

import torch
from torch import nn

from normdiag.errors import RunError
from normdiag.evidence.architecture import Architecture
from normdiag.evidence.blocks import Block
from normdiag.evidence.coverage import Skipped
from normdiag.evidence.stream import Position
from normdiag.inputs.batch import Batch
from normdiag.inputs.truncation import first_token, shortened
from normdiag.measure.blocks.block_numbers import Place, disagreement, from_matrix, from_products
from normdiag.measure.blocks.copies import Sums, copied, jacobian
from normdiag.measure.blocks.paths import Path, after
from normdiag.measure.blocks.points import Point, points_of
from normdiag.measure.blocks.spans import Span, is_followed
from normdiag.measure.blocks.structural_zeros import structural_zeros
from normdiag.measure.passes.gradient_edges import Taps, tapped
from normdiag.structure.attachments import StackStructure

POSITIONS = 8
"""Tokens of the probe: the cost of a dense Jacobian grows with each."""
WIDEST, MOST_WORK = 1024, 8 * 1024**3
"""Dense up to this width H, and while H^3 tokens, to which its cost is proportional, is no more.

There it costs as much as the iteration, which grows with H^2 only: some 3 s of one core a layer.
"""
_NEAR = 1e-4
"""How far a Jacobian from copies may be off, relative to its singular values' mean."""
_WORTH = 1 << 30
"""Products of H^3, tokens and adds from which a forward of copies is worth while."""


class _ImpossibleError(Exception):
    """A span that has no Jacobian, and why."""


def measure_blocks(
    model: nn.Module, batch: Batch, advance: Callable[[], None], positions: int = POSITIONS
) -> tuple[dict[str, Block], tuple[Skipped, ...]]:
    """The blocks of `model` at the last of the first `positions` tokens of the first sequence.

    Keys are ids of adds, "<stack>/layer#k" and ids of stacks. What could not be done is said.
    `advance` is called `steps(architecture)` times.
    """
    short = shortened(batch, positions)
    start = Position(
        sequence=batch.rows[0] if batch.rows else 0,
        position=0 if short is batch else first_token(batch),
    )
    blocks: dict[str, Block] = {}
    left_out: dict[str, list[str]] = {}
    try:
        sums = Sums()
        with tapped(model, short, sums) as taps:
            worth = short is not batch and any(_is_work(s) for s in taps.stacks)
            copies = copied(model, short, taps, sums) if worth else {}
            for name, stack in taps.sites.stacks.items():
                found = _Stack(taps, name, stack, start, advance, copies.get(name, []))
                found.measure()
                blocks |= found.blocks
                for span, why in found.left_out.items():
                    left_out.setdefault(why, []).append(span)
    except RunError as error:
        return {}, (Skipped(what="Jacobians of blocks", why=f"with autograd on, {error}"),)
    return blocks, tuple(
        Skipped(what=f"Jacobians of {_listed(names)}", why=why) for why, names in left_out.items()
    )


def steps(architecture: Architecture) -> int:
    """How many spans there are."""
    adds = architecture.residual_adds
    return len(adds) + len({(a.stack, a.layer) for a in adds}) + len(architecture.stacks)


def _is_work(stack: StackStructure) -> bool:
    width = stack.chain.width
    return width <= WIDEST and width**3 * POSITIONS * len(stack.adds) > _WORTH


def _listed(names: list[str]) -> str:
    return ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")


@dataclass(frozen=True, slots=True)
class _Cut:
    """The adds first .. last - 1 of a stack."""

    id: str
    span: Literal["add", "layer", "stack"]
    first: int
    last: int
    layer: int | None = None


@dataclass(slots=True)
class _Stack:
    """The blocks of one stack, from the first add to the last."""

    taps: Taps
    name: str
    stack: StackStructure
    start: Position
    """The probe's first token."""
    advance: Callable[[], None]
    copies: list[Point | str]
    """The points among copies of the token, where there are any."""
    blocks: dict[str, Block] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)
    """Why, by id."""
    _followed: dict[int, bool] = field(default_factory=dict)
    """Of each add, whether autograd follows all of its branches."""
    _points: list[Point | str] = field(init=False)

    def __post_init__(self) -> None:
        self._points = points_of(self.taps, self.stack)

    def measure(self) -> None:
        """Adds make layers and layers make the stack, where the product is the whole."""
        whole: Path | None = None
        gains: list[float | None] = []
        for n, layer in enumerate(self._layers()):
            path: Path | None = None
            for add in self._adds(layer):
                own = self._measure(add)
                path = own if add.first == layer.first else after(path, own)
            path = self._measure(layer, path)
            whole = path if n == 0 else after(whole, path)
            gains.append(self.blocks[layer.id].sigma_max if layer.id in self.blocks else None)
        stack = _Cut(self.name, "stack", 0, len(self.stack.adds))
        self._measure(stack, whole)
        if stack.id in self.blocks and None not in gains:
            product = prod(gain for gain in gains if gain is not None)
            self.blocks[stack.id] = replace(self.blocks[stack.id], product=product)

    def _layers(self) -> Iterator[_Cut]:
        numbered = enumerate(f.layer for f in self.stack.adds)
        for layer, run in groupby(numbered, key=lambda pair: pair[1]):
            own = [i for i, _ in run]
            yield _Cut(f"{self.name}/layer#{layer}", "layer", own[0], own[-1] + 1, layer)

    def _adds(self, layer: _Cut) -> Iterator[_Cut]:
        for i in range(layer.first, layer.last):
            id = self.taps.sites.adds[self.stack.adds[i].add]
            yield _Cut(id, "add", i, i + 1, layer.layer)

    def _measure(self, cut: _Cut, parts: Path | None = None) -> Path | None:
        """File the block of one span. Its Jacobian, where that is held."""
        path = None
        try:
            span = self._span(cut)
            place = self._place(cut, span)
            held = self._held(span, cut, parts)
            if held is None:
                self.blocks[cut.id] = from_products(span, place)
            else:
                path, off = held
                self.blocks[cut.id] = from_matrix(path.jacobian, place, span.dtype, off)
        except _ImpossibleError as error:
            self.left_out[cut.id] = str(error)
        except (RuntimeError, NotImplementedError) as error:  # of torch's backward
            why = str(error).split("\n", 1)[0]
            self.left_out[cut.id] = f"torch cannot differentiate it: {why}"
        self.advance()
        return path

    def _span(self, cut: _Cut) -> Span:
        """Raises _ImpossibleError where the ends do not match."""
        start, end = self._points[cut.first], self._points[cut.last]
        for point in (start, end):
            if isinstance(point, str):
                raise _ImpossibleError(point)
        assert isinstance(start, Point)
        assert isinstance(end, Point)
        if start.width != end.width:
            raise _ImpossibleError(
                f"the stream's width goes from {start.width} to {end.width} there"
            )
        if (start.rows, start.token) != (end.rows, end.token):
            raise _ImpossibleError("tokens change places or number there")
        for k in range(cut.first, cut.last):
            if k not in self._followed:
                self._followed[k] = is_followed(self.taps, self.stack.adds[k].add)
            if not self._followed[k]:
                raise _ImpossibleError("autograd does not follow a branch there")
        span = Span(start, end)
        if not bool(span.pull(torch.ones(1, span.width)).isfinite().all()):
            raise _ImpossibleError("the derivative is not finite there")
        return span

    def _held(self, span: Span, cut: _Cut, parts: Path | None) -> tuple[Path, float] | None:
        """The Jacobian and how far off it may be; None where it is too large to be held."""
        if span.width > WIDEST or span.width**3 * span.end.rows > MOST_WORK:
            return None
        if parts is not None and parts.is_whole:
            return parts, disagreement(span, parts.jacobian)
        if cut.span == "stack":
            return None
        leaves, returns = span.isolation()
        if not (leaves or returns):
            alone = self._alone(span, cut)
            if alone is not None:
                return alone
        return Path(span.dense(), leaves, returns), 0.0

    def _alone(self, span: Span, cut: _Cut) -> tuple[Path, float] | None:
        """From copies of the token, where their Jacobian proves to be that of the span."""
        ends = self.copies[cut.first : cut.last + 1]
        if not ends or isinstance(ends[0], str) or isinstance(ends[-1], str):
            return None
        found = jacobian(ends[0], ends[-1])
        if found is None:
            return None
        off = disagreement(span, found)
        rms = float(found.square().mean(0).sum().sqrt())
        return (Path(found, False, False), off) if off < _NEAR * rms else None

    def _place(self, cut: _Cut, span: Span) -> Place:
        adds = self.stack.adds
        links = [link.norms for link in self.stack.chain.links[cut.first + 1 : cut.last + 1]]
        if cut.last == len(adds):
            links.append(adds[-1].stream_norms[-1:])
        norms = [norm for passed in links for norm in passed]
        is_plain = cut.span != "stack" and not norms
        for facts in adds[cut.first : cut.last]:
            is_scaled = facts.skip_factors or facts.is_interpolation or facts.add.node.op == "lerp"
            is_plain = is_plain and not is_scaled
        sequence, position = span.end.token
        return Place(
            span=cut.span,
            token=Position(
                sequence=self.start.sequence + sequence, position=self.start.position + position
            ),
            layer=cut.layer,
            zeros=structural_zeros(norms, self.taps.learned, span.dtype),
            is_plain=is_plain,
        )
