"""One pre-norm stack of four layers whose stream is handed on in other ways than x alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from tests.structure.small_parts import DEPTH, IDS, MLP, WIDTH, Attention, Norm, PreRes
from tests.structure.stack_spellings import Block, Plain

TOKENS = IDS.shape[1]


class ValueBlock(Block):
    """`mix` makes its values of its own and of the first layer's."""

    def __init__(self, mix: Callable[[Tensor, Tensor, Tensor], Tensor]) -> None:
        super().__init__()
        self.mix, self.share = mix, nn.Parameter(torch.full((1,), 0.4))

    def attend(self, x: Tensor, first: Tensor | None) -> tuple[Tensor, Tensor]:
        h = self.n1(x)
        v = self.attn.v(h)
        first = v if first is None else first
        return x + self.attn.project(h, h, self.mix(v, first, self.share)), first


class ValuePlus(Plain):
    @staticmethod
    def mix(own: Tensor, first: Tensor, share: Tensor) -> Tensor:
        return own + first

    def make(self) -> None:
        self.blocks = nn.ModuleList(ValueBlock(self.mix) for _ in range(DEPTH))

    def run(self, x: Tensor) -> Tensor:
        first = None
        for block in self.blocks:
            x, first = block.attend(x, first)  # type: ignore[operator]
            x = x + block.mlp(block.n2(x))  # type: ignore[operator]
        return x


class ValueLerp(ValuePlus):
    @staticmethod
    def mix(own: Tensor, first: Tensor, share: Tensor) -> Tensor:
        return torch.lerp(own, first, 0.5)


class ValueLearned(ValuePlus):
    @staticmethod
    def mix(own: Tensor, first: Tensor, share: Tensor) -> Tensor:
        return share * own + (1 - share) * first


class ValueGate(ValuePlus):
    """The share depends on the token."""

    @staticmethod
    def mix(own: Tensor, first: Tensor, share: Tensor) -> Tensor:
        gate = torch.sigmoid(own.mean(-1, keepdim=True) * share)
        return first.lerp(own, gate)


class PreviousValues(ValuePlus):
    """Values of the layer before, not of the first."""

    def run(self, x: Tensor) -> Tensor:
        before = None
        for block in self.blocks:
            h = block.n1(x)  # type: ignore[operator]
            v = block.attn.v(h)  # type: ignore[union-attr, operator]
            before = v if before is None else v + 0.5 * before
            x = x + block.attn.project(h, h, before)  # type: ignore[union-attr, operator]
            x = x + block.mlp(block.n2(x))  # type: ignore[operator]
        return x


class FirstStream(Plain):
    """The input of the first layer is mixed in again before every layer."""

    def make(self) -> None:
        super().make()
        self.keep, self.first = (nn.Parameter(torch.full((DEPTH,), s)) for s in (0.9, 0.2))

    def run(self, x: Tensor) -> Tensor:
        x0 = x
        for i, block in enumerate(self.blocks):
            x = self.keep[i] * x + self.first[i] * x0
            x = block(x)
        return x


class FirstStreamAdded(Plain):
    def run(self, x: Tensor) -> Tensor:
        x0 = x
        for i, block in enumerate(self.blocks):
            x = block(x + x0 if i else x)
        return x


class SplitAndJoined(Plain):
    """Two kinds of tokens are concatenated before every block and split behind it."""

    def run(self, x: Tensor) -> Tensor:
        a, b = x[:, :4], x[:, 4:]
        for block in self.blocks:
            y = block(torch.cat([a, b], 1))
            a, b = y[:, :4], y[:, 4:]
        return torch.cat([b, a], 1)


class OneKindRead(SplitAndJoined):
    """Only the second kind is read at the end."""

    def run(self, x: Tensor) -> Tensor:
        return super().run(x)[:, :-4]


class JoinedInside(Plain):
    """Each block joins what it is given, and returns two parts."""

    class Layer(Block):
        def forward(self, parts: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:  # type: ignore[override]
            x = torch.cat(parts, 1)
            x = x + self.attn(self.n1(x))
            x = x + self.mlp(self.n2(x))
            return x[:, :2], x[:, 2:]

    def make(self) -> None:
        self.blocks = nn.ModuleList(self.Layer() for _ in range(DEPTH))

    def run(self, x: Tensor) -> Tensor:
        parts = (x[:, :2], x[:, 2:])
        for block in self.blocks:
            parts = block(parts)
        return torch.cat(parts, 1)


class ClassTokenApart(Plain):
    """The first token is cut off before each MLP and joined again."""

    def run(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            x = x + block.attn(block.n1(x))  # type: ignore[operator]
            x = x + block.mlp(block.n2(x))  # type: ignore[operator]
            x = torch.cat([x[:, :1], x[:, 1:]], 1)
        return x


class ClassTokenKept(Plain):
    """Attention writes to the other tokens alone, the MLP reads and writes all of them."""

    def run(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            first, rest = x[:, :1], x[:, 1:]
            rest = rest + block.attn(block.n1(rest))  # type: ignore[operator]
            x = torch.cat([first, rest], 1)
            x = x + block.mlp(block.n2(x))  # type: ignore[operator]
        return x


class TokenMixer(nn.Module):
    """Weights along the tokens, behind a transposition."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(TOKENS, 2 * TOKENS), nn.Linear(2 * TOKENS, TOKENS)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(self.up(x.transpose(1, 2)).relu()).transpose(1, 2)


class PointwiseMixer(nn.Module):
    """Convolutions of size 1 over tokens in the place of channels."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Conv1d(TOKENS, 30, 1), nn.Conv1d(30, TOKENS, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(self.up(x).relu())


class Mixer(Plain):
    mixer: type[nn.Module] = TokenMixer

    def make(self) -> None:
        self.blocks = nn.ModuleList(
            nn.Sequential(PreRes(self.mixer()), PreRes(MLP())) for _ in range(DEPTH)
        )


class ConvMixer(Mixer):
    mixer = PointwiseMixer


class ChannelsFirst(Plain):
    """The stream is (batch, channels, tokens), its weights are convolutions of size 1."""

    class Layer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.n1, self.attn, self.n2 = Norm(), Attention(), Norm()
            self.up, self.down = nn.Conv1d(WIDTH, 40, 1), nn.Conv1d(40, WIDTH, 1)

        def forward(self, x: Tensor) -> Tensor:
            x = x + self.attn(self.n1(x.mT)).mT
            return x + self.down(self.up(self.n2(x.mT).mT).relu())

    def make(self) -> None:
        self.blocks = nn.ModuleList(self.Layer() for _ in range(DEPTH))

    def run(self, x: Tensor) -> Tensor:
        return super().run(x.mT).mT


SPELLINGS: tuple[Callable[[], Any], ...] = (
    ValuePlus, ValueLerp, ValueLearned, ValueGate, PreviousValues, FirstStream, FirstStreamAdded,
    SplitAndJoined, OneKindRead, JoinedInside, ClassTokenApart, ClassTokenKept, Mixer, ConvMixer,
    ChannelsFirst,
)  # fmt: skip
