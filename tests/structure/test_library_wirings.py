"""Wirings that models of other libraries have, in small: none of them is ill."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import normdiag
from normdiag.evidence.architecture import Stack
from normdiag.report.report import Report
from tests.structure.small_parts import DEPTH, IDS, MLP, WIDTH, Attention, Net, Norm, draw_weights
from tests.structure.stack_spellings import Block, Plain, Triples

Build = Callable[[], Any]


class GatedCells(Triples):
    """A GRU cell, called beside norm and function, takes the place of the sum."""

    def make(self) -> None:
        functions = [part for _ in range(DEPTH) for part in (Attention(), MLP())]
        self.blocks = nn.ModuleList(
            nn.ModuleList([Norm(), f, nn.GRUCell(WIDTH, WIDTH)]) for f in functions
        )

    def run(self, x: Tensor) -> Tensor:
        for norm, function, cell in self.blocks:  # type: ignore[misc]
            x = cell(function(norm(x)).flatten(0, 1), x.flatten(0, 1)).view_as(x)
        return x


class Reinjected(Triples):
    """Each norm reads the stream plus a projection of its first value."""

    def make(self) -> None:
        super().make()
        self.again = nn.Linear(WIDTH, WIDTH, bias=False)

    def run(self, x: Tensor) -> Tensor:
        first = self.again(x)
        for norm, function, add in self.blocks:  # type: ignore[misc]
            x = add(function(norm(x + first)), x)
        return x


class Merged(Plain):
    """Later layers begin with a projection of the stream and an earlier value of it together."""

    has_norm = False

    def make(self) -> None:
        super().make()
        half = DEPTH // 2
        self.norms = nn.ModuleList(Norm(2 * WIDTH) for _ in range(half if self.has_norm else 0))
        self.merges = nn.ModuleList(nn.Linear(2 * WIDTH, WIDTH) for _ in range(half))

    def run(self, x: Tensor) -> Tensor:
        earlier: list[Tensor] = []
        for depth, block in enumerate(self.blocks):
            if depth < DEPTH // 2:
                earlier.append(x)
            else:
                at = depth - DEPTH // 2
                both = torch.cat([x, earlier.pop()], dim=-1)
                x = self.merges[at](self.norms[at](both) if self.has_norm else both)
            x = block(x)
        return x


class NormedAndMerged(Merged):
    has_norm = True


class Projected(Plain):
    """The stream and what is no value of it are projected together: a new stream begins there."""

    def make(self) -> None:
        super().make()
        self.merge, self.other = nn.Linear(2 * WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)

    def run(self, x: Tensor) -> Tensor:
        beside = self.other(x)
        for depth, block in enumerate(self.blocks):
            x = self.merge(torch.cat([x, beside], dim=-1)) if depth == DEPTH // 2 else x
            x = block(x)
        return x


class InTurn(Net):
    """Layers of two lists run in turn."""

    def make(self) -> None:
        self.own = nn.ModuleList(Block() for _ in range(DEPTH // 2))
        self.cross = nn.ModuleList(Block() for _ in range(DEPTH // 2))

    def run(self, x: Tensor) -> Tensor:
        for own, cross in zip(self.own, self.cross, strict=True):
            x = cross(own(x))
        return x


class WithoutFirstToken(InTurn):
    """Layers of one list behind those of another, which no longer see the first token."""

    def run(self, x: Tensor) -> Tensor:
        for block in self.own:
            x = block(x)
        x = x[:, 1:]
        for block in self.cross:
            x = block(x)
        return x


class Around(Plain):
    """A residual connection around all layers: x + out(layers(in(N(x))))."""

    def make(self) -> None:
        super().make()
        self.norm, self.into, self.out = Norm(), MLP(), MLP()
        self.final = nn.Identity()  # type: ignore[assignment]

    def run(self, x: Tensor) -> Tensor:
        return x + self.out(super().run(self.into(self.norm(x))))


class BareAround(Around):
    """The same with nothing around the layers."""

    def run(self, x: Tensor) -> Tensor:
        return self.out(Plain.run(self, x))


class ConditionedBlock(nn.Module):
    """x + tanh(g) N(F(N(x))), with a gate that is computed from a condition alone."""

    def __init__(self) -> None:
        super().__init__()
        self.parts = nn.ModuleList([Attention(), MLP()])
        self.before, self.behind = (nn.ModuleList([Norm(), Norm()]) for _ in range(2))
        self.gates = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(2))

    def forward(self, x: Tensor, condition: Tensor) -> Tensor:
        for at, part in enumerate(self.parts):
            gate = self.gates[at](condition).unsqueeze(1).tanh()
            x = x + gate * self.behind[at](part(self.before[at](x)))
        return x


class Conditioned(Net):
    def make(self) -> None:
        self.blocks = nn.ModuleList(ConditionedBlock() for _ in range(DEPTH))
        self.condition = nn.Parameter(torch.randn(1, WIDTH))

    def forward(self, ids: Tensor) -> Tensor:
        condition = self.tok(ids[:, -1]) + self.condition
        x = self.tok(ids)
        for block in self.blocks:
            x = block(x, condition)
        return self.head(self.final(x))


class ShiftedEnd(Conditioned):
    """A second stream, whose final norm is scaled and shifted by a condition, is read by the
    first one's last layer."""

    def make(self) -> None:
        super().make()
        self.blocks = nn.ModuleList(Block() for _ in range(DEPTH))
        self.beside = nn.ModuleList(Block() for _ in range(2))
        self.shift, self.scale = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.end, self.cross = Norm(), Attention()
        self.read, self.others = Norm(), nn.Embedding(50, WIDTH)

    def forward(self, ids: Tensor) -> Tensor:
        condition = self.others(ids[:, -1]) + self.condition
        x, y = self.tok(ids), self.others(ids)
        for block, beside in zip(self.blocks, self.beside, strict=False):
            x, y = block(x), beside(y)
        scale, shift = self.scale(condition).unsqueeze(1), self.shift(condition).unsqueeze(1)
        y = self.end(y) * (1 + scale) + shift
        x = x + self.cross(self.read(x), y)
        for block in self.blocks[2:]:
            x = block(x)
        return self.head(self.final(x))


STACKS: dict[Build, list[Any]] = {
    GatedCells: [("blocks", DEPTH, 2, "other")],
    Reinjected: [("blocks", DEPTH, 2, "pre")],
    Merged: [("blocks", DEPTH, 2, "pre")],
    NormedAndMerged: [("blocks", DEPTH, 2, "pre")],
    Projected: [("blocks", 2, 2, "pre"), ("blocks@1", 2, 2, "pre")],
    InTurn: [("", DEPTH, 2, "pre")],
    WithoutFirstToken: [("own", 2, 2, "pre"), ("cross", 2, 2, "pre")],
    Around: [("blocks", DEPTH, 2, "pre")],
    Conditioned: [("blocks", DEPTH, 2, "sandwich")],
}


@functools.cache
def inspect_model(build: Build) -> Report:
    return normdiag.inspect(draw_weights(build()), inputs=IDS, measure="stream,norms")


def shape_of(stack: Stack) -> tuple[str, int, int, str]:
    return stack.id, stack.layers, stack.residual_adds_per_layer, stack.placement


def name_of(build: Build) -> str:
    return build.__name__


@pytest.mark.parametrize("build", STACKS, ids=name_of)
def test_the_stacks_are_those_of_the_code(build: Build) -> None:
    report = inspect_model(build)
    assert [shape_of(stack) for stack in report.architecture.stacks] == STACKS[build]
    assert not [f.message for f in report.findings if f.severity != "info"]
    assert not report.coverage.unexplained_adds
    assert max(r.max_rel_error for r in report.measurements.replay.values()) < 1e-5
    closures = report.measurements.closure.values()
    assert max((c.max_rel_error for c in closures), default=0.0) < 1e-5


def test_layers_on_a_branch_are_read_by_the_add_around_them() -> None:
    around, bare = inspect_model(Around), inspect_model(BareAround)
    assert [s.read_by for s in around.architecture.stacks] == ["residual-add"]
    assert [s.read_by for s in bare.architecture.stacks] == ["head"]
    assert "ND102" in {f.code for f in bare.findings}


def test_a_shift_of_a_final_norm_is_explained() -> None:
    report = inspect_model(ShiftedEnd)
    assert "end" in {s.final_norm for s in report.architecture.stacks}
    assert not report.coverage.unexplained_adds
    assert not [f.message for f in report.findings if f.severity != "info"]
