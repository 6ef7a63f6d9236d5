"""Several stacks behind each other, and single adds beside the layers of one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from tests.structure.small_parts import DEPTH, MLP, VOCAB, WIDTH, Attention, Net, Norm, PreRes
from tests.structure.stack_spellings import Add, Block, ParentLoop, Plain, Triples


class Encoder(nn.Module):
    def __init__(self, depth: int = 2) -> None:
        super().__init__()
        self.layers, self.norm = nn.ModuleList(Block() for _ in range(depth)), Norm()

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(x)
        return self.norm(x)


class Behind(Net):
    """Two encoders, each with its own final norm, the second of which is the model's."""

    depth = 2

    def make(self) -> None:
        self.first, self.second = Encoder(self.depth), Encoder(self.depth)
        self.final = nn.Identity()  # type: ignore[assignment]

    def run(self, x: Tensor) -> Tensor:
        return self.second(self.first(x))


class ShortBehind(Behind):
    depth = 1


class InList(Net):
    def make(self) -> None:
        self.encoders = nn.ModuleList(Encoder() for _ in range(2))
        self.final = nn.Identity()  # type: ignore[assignment]

    def run(self, x: Tensor) -> Tensor:
        for encoder in self.encoders:
            x = encoder(x)
        return x


class SpaceThenTime(Behind):
    """Tokens of one row first, then those of one column."""

    def run(self, x: Tensor) -> Tensor:
        x = self.first(x.unflatten(1, (3, 3)).flatten(0, 1))
        x = x.unflatten(0, (-1, 3)).transpose(1, 2).flatten(0, 1)
        return self.second(x).unflatten(0, (-1, 3)).flatten(1, 2)


class Wider(Net):
    def make(self) -> None:
        self.first, self.wide = Encoder(), nn.Linear(WIDTH, 2 * WIDTH)
        self.second = nn.ModuleList(
            nn.Sequential(
                PreRes(Attention(2 * WIDTH), 2 * WIDTH), PreRes(MLP(2 * WIDTH), 2 * WIDTH)
            )
            for _ in range(2)
        )
        self.final, self.head = Norm(2 * WIDTH), nn.Linear(2 * WIDTH, VOCAB)

    def run(self, x: Tensor) -> Tensor:
        x = self.wide(self.first(x))
        for block in self.second:
            x = block(x)
        return x


class OneBlockStage(Net):
    """One block, half of the tokens, three blocks."""

    def make(self) -> None:
        self.stages = nn.ModuleList(nn.Sequential(*(Block() for _ in range(n))) for n in (1, 3))
        self.down = nn.Conv1d(WIDTH, WIDTH, 3, stride=2)

    def run(self, x: Tensor) -> Tensor:
        return self.stages[1](self.down(self.stages[0](x).mT).mT)


class Positions(nn.Module):
    """A convolution along the tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv1d(WIDTH, WIDTH, 3, padding=1, groups=WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        return self.conv(x.mT).mT


class PositionsAdded(Positions):
    def forward(self, x: Tensor) -> Tensor:
        return x + super().forward(x)


class Between(Plain):
    """A convolutional position encoding between two runs of layers, added by the parent."""

    def make(self) -> None:
        super().make()
        self.positions = Positions()

    def run(self, x: Tensor) -> Tensor:
        for i, block in enumerate(self.blocks):
            x = block(x)
            if i == 0:
                x = x + self.positions(x)
        return x


class AddedBetween(Plain):
    """The module itself adds."""

    def make(self) -> None:
        super().make()
        self.positions = PositionsAdded()

    def run(self, x: Tensor) -> Tensor:
        for i, block in enumerate(self.blocks):
            x = self.positions(block(x)) if i == 1 else block(x)
        return x


class LoopBetween(ParentLoop):
    """All adds are the parent's."""

    def make(self) -> None:
        super().make()
        self.positions = Positions()

    def run(self, x: Tensor) -> Tensor:
        for i, (attention, mlp) in enumerate(self.blocks):  # type: ignore[misc, arg-type]
            x = x + attention(x)
            x = x + mlp(x)
            if i == 1:
                x = x + self.positions(x)
        return x


class Ahead(Plain):
    """The position encoding comes before all layers."""

    def make(self) -> None:
        super().make()
        self.positions = Positions()

    def run(self, x: Tensor) -> Tensor:
        return super().run(x + self.positions(x))


class CrossAhead(Ahead):
    """Tokens read a context before all layers."""

    def make(self) -> None:
        super().make()
        self.n, self.cross, self.context = Norm(), Attention(), nn.Linear(WIDTH, WIDTH)

    def run(self, x: Tensor) -> Tensor:
        y = self.context(x.flip(1)).relu()
        return Plain.run(self, x + self.cross(self.n(x), y))


class Sequence(Ahead):
    """Blocks of an nn.Sequential, which is called."""

    def make(self) -> None:
        self.positions = Positions()
        self.blocks = nn.Sequential(*(Block() for _ in range(DEPTH)))

    def run(self, x: Tensor) -> Tensor:
        return self.blocks(x + self.positions(x))


class PooledByProbe(Plain):
    """A learned query reads the tokens behind the final norm."""

    def make(self) -> None:
        super().make()
        self.probe = nn.Parameter(torch.ones(1, 1, WIDTH))
        self.pool, self.n, self.mlp = Attention(), Norm(), MLP()

    def forward(self, ids: Tensor) -> Tensor:
        x = self.final(self.run(self.tok(ids)))
        y = self.pool(self.probe.expand(x.shape[0], -1, -1), x)
        return self.head(y + self.mlp(self.n(y)))


class OddFirst(Triples):
    """An MLP before the first attention, in the same list."""

    def make(self) -> None:
        super().make()
        self.blocks.insert(0, nn.ModuleList([Norm(), MLP(), Add()]))


class OddFirstApart(ParentLoop):
    """An MLP of the parent before the layers."""

    def make(self) -> None:
        super().make()
        self.first = nn.Sequential(Norm(), MLP())

    def run(self, x: Tensor) -> Tensor:
        return super().run(x + self.first(x))


class TwoPasses(Plain):
    """Two blocks, run twice."""

    def make(self) -> None:
        self.blocks = nn.ModuleList(Block() for _ in range(2))

    def run(self, x: Tensor) -> Tensor:
        return super().run(super().run(x))


class LoopedTriples(Triples):
    def make(self) -> None:
        super().make()
        self.blocks = self.blocks[:4]

    def run(self, x: Tensor) -> Tensor:
        return super().run(super().run(x))


COMPOSED: dict[Callable[[], Any], Any] = {
    Behind: [("first.layers", 2, 4, "first.norm"), ("second.layers", 2, 4, "second.norm")],
    ShortBehind: [("first.layers", 1, 2, "first.norm"), ("second.layers", 1, 2, "second.norm")],
    InList: [
        ("encoders.0.layers", 2, 4, "encoders.0.norm"),
        ("encoders.1.layers", 2, 4, "encoders.1.norm"),
    ],
    SpaceThenTime: [("first.layers", 2, 4, "first.norm"), ("second.layers", 2, 4, "second.norm")],
    Wider: [("first.layers", 2, 4, "first.norm"), ("second", 2, 4, "final")],
    OneBlockStage: [("stages.0", 1, 2, None), ("stages.1", 3, 6, "final")],
    TwoPasses: [("blocks", 4, 8, "final")],
    LoopedTriples: [("blocks", 4, 8, "final")],
}
SINGLE: dict[Callable[[], Any], tuple[str, str, int | None]] = {
    Between: ("positions", "between", 0),
    AddedBetween: ("positions", "between", 1),
    LoopBetween: ("positions", "between", 1),
    Ahead: ("positions", "before", None),
    CrossAhead: ("", "before", None),
    Sequence: ("positions", "before", None),
    PooledByProbe: ("mlp", "behind", DEPTH - 1),
    OddFirst: ("blocks.0.2", "before", None),
    OddFirstApart: ("first", "before", None),
}
"""The module that names the add, its place, and the last layer before it."""
SPELLINGS = (*COMPOSED, *SINGLE)
