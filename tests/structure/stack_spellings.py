"""One pre-norm stack of four layers of attention and MLP, written in the ways people write it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.structure.small_parts import DEPTH, HEADS, MLP, WIDTH, Attention, Net, Norm, PreRes

Part = tuple[nn.Module, nn.Module]
"""A norm and the function behind it."""


def sublayers() -> Iterable[Part]:
    for _ in range(DEPTH):
        yield Norm(), Attention()
        yield Norm(), MLP()


class Block(nn.Module):
    """Control: one module a layer."""

    def __init__(self) -> None:
        super().__init__()
        self.n1, self.attn, self.n2, self.mlp = Norm(), Attention(), Norm(), MLP()

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attn(self.n1(x))
        return x + self.mlp(self.n2(x))


class Add(nn.Module):
    def forward(self, y: Tensor, x: Tensor) -> Tensor:
        return y + x


class Plain(Net):
    def make(self) -> None:
        self.blocks = nn.ModuleList(Block() for _ in range(DEPTH))

    def run(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            x = block(x)
        return x


class Triples(Net):
    """A list of norm, function and residual module for each sub-layer."""

    def make(self) -> None:
        self.blocks = nn.ModuleList(nn.ModuleList([n, f, Add()]) for n, f in sublayers())

    def run(self, x: Tensor) -> Tensor:
        for norm, function, add in self.blocks:  # type: ignore[misc]
            x = add(function(norm(x)), x)
        return x


class OneAddModule(Triples):
    """The same, and all of them share one residual module."""

    def make(self) -> None:
        self.blocks = nn.ModuleList(nn.ModuleList([n, f]) for n, f in sublayers())
        self.add = Add()

    def run(self, x: Tensor) -> Tensor:
        for norm, function in self.blocks:  # type: ignore[misc]
            x = self.add(function(norm(x)), x)
        return x


class Pairs(Plain):
    """Two equal wrappers in each block."""

    def make(self) -> None:
        self.blocks = nn.ModuleList(
            nn.Sequential(PreRes(Attention()), PreRes(MLP())) for _ in range(DEPTH)
        )


class FlatWrappers(Plain):
    """One list of wrappers, attention and MLP in turn."""

    def make(self) -> None:
        self.blocks = nn.ModuleList(PreRes(f) for _, f in sublayers())


class ParentLoop(Net):
    """The parent adds what lists of two functions return."""

    def make(self) -> None:
        self.blocks = nn.ModuleList(
            nn.ModuleList([nn.Sequential(Norm(), Attention()), nn.Sequential(Norm(), MLP())])
            for _ in range(DEPTH)
        )

    def run(self, x: Tensor) -> Tensor:
        for attention, mlp in self.blocks:  # type: ignore[misc]
            x = attention(x) + x
            x = mlp(x) + x
        return x


class OneLine(ParentLoop):
    """All adds are one line."""

    def run(self, x: Tensor) -> Tensor:
        for layer in self.blocks:
            for function in layer:  # type: ignore[attr-defined]
                x = x + function(x)
        return x


class ByForward(Plain):
    """Blocks are run by their forward, which no hook observes."""

    def run(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            x = block.forward(x)
        return x


class PartsAlone(Plain):
    """The parts of a block are called, the block is not."""

    def run(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            x = x + block.attn(block.n1(x))  # type: ignore[operator]
            x = x + block.mlp(block.n2(x))  # type: ignore[operator]
        return x


class TwoLists(Plain):
    """One loop over the first layers, one over the others."""

    def make(self) -> None:
        self.first = nn.ModuleList(Block() for _ in range(2))
        self.rest = nn.ModuleList(Block() for _ in range(DEPTH - 2))

    def run(self, x: Tensor) -> Tensor:
        for block in self.first:
            x = block(x)
        for block in self.rest:
            x = block(x)
        return x


class InPlace(Plain):
    def run(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            x += block.attn(block.n1(x))  # type: ignore[operator]
            x += block.mlp(block.n2(x))  # type: ignore[operator]
        return x


class Dictionaries(Net):
    def make(self) -> None:
        self.blocks = nn.ModuleList(
            nn.ModuleDict({"a": nn.Sequential(Norm(), Attention()), "m": PreRes(MLP())})
            for _ in range(DEPTH)
        )

    def run(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            x = x + block["a"](x)  # type: ignore[index]
            x = block["m"](x)  # type: ignore[index]
        return x


class SequenceFirst(Plain):
    def run(self, x: Tensor) -> Tensor:
        return super().run(x.transpose(0, 1)).transpose(0, 1)

    def make(self) -> None:
        self.blocks = nn.ModuleList(nn.Sequential(*pair) for pair in _sequence_first())


def _sequence_first() -> Iterable[tuple[nn.Module, nn.Module]]:
    for _ in range(DEPTH):
        yield PreRes(Attention(tokens=0)), PreRes(MLP())


def functional(x: Tensor, weights: Callable[[str], Tensor]) -> Tensor:
    """One layer of plain functions."""
    h = F.rms_norm(x, (WIDTH,), weights("n1"), 1e-6)
    q, k, v = (F.linear(h, weights(w)).unflatten(-1, (HEADS, -1)).transpose(1, 2) for w in "qkv")
    y = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
    x = x + F.linear(y, weights("o"))
    h = F.gelu(F.linear(F.rms_norm(x, (WIDTH,), weights("n2"), 1e-6), weights("up")))
    return x + F.linear(h, weights("down"))


SHAPES: dict[str, tuple[int, ...]] = {
    "n1": (WIDTH,), "n2": (WIDTH,), "up": (2 * WIDTH, WIDTH), "down": (WIDTH, 2 * WIDTH),
} | dict.fromkeys("qkvo", (WIDTH, WIDTH))  # fmt: skip


class Functional(Net):
    """No modules, one dictionary of parameters a layer."""

    def make(self) -> None:
        self.blocks = nn.ModuleList(
            nn.ParameterDict({k: nn.Parameter(torch.ones(s)) for k, s in SHAPES.items()})
            for _ in range(DEPTH)
        )

    def run(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            x = functional(x, lambda name, w=block: w[name])  # type: ignore[misc, index]
        return x


class Stacked(Net):
    """No modules, and the weights of all layers in one parameter each."""

    def make(self) -> None:
        for name, shape in SHAPES.items():
            setattr(self, f"w_{name}", nn.Parameter(torch.ones(DEPTH, *shape)))

    def run(self, x: Tensor) -> Tensor:
        for i in range(DEPTH):
            x = functional(x, lambda name, at=i: getattr(self, f"w_{name}")[at])  # type: ignore[misc]
        return x


SPELLINGS: tuple[Callable[[], Any], ...] = (
    Plain, Triples, OneAddModule, Pairs, FlatWrappers, ParentLoop, OneLine, ByForward, PartsAlone,
    TwoLists, InPlace, Dictionaries, SequenceFirst, Functional, Stacked,
)  # fmt: skip
