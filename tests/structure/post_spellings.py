"""One post-norm stack of four layers of attention and MLP, written in the ways people write it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor, nn

from tests.structure.small_parts import DEPTH, MLP, Attention, Net, Norm
from tests.structure.stack_spellings import Add, Block, sublayers


class PostNet(Net):
    def __init__(self) -> None:
        super().__init__()
        self.final = nn.Identity()  # type: ignore[assignment]


class PostRes(nn.Module):
    def __init__(self, function: nn.Module) -> None:
        super().__init__()
        self.fn, self.norm = function, Norm()

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(x + self.fn(x))


class PostPlain(PostNet):
    class Layer(Block):
        def forward(self, x: Tensor) -> Tensor:
            x = self.n1(x + self.attn(x))
            return self.n2(x + self.mlp(x))

    def make(self) -> None:
        self.blocks = nn.ModuleList(self.Layer() for _ in range(DEPTH))

    def run(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            x = block(x)
        return x


class PostByForward(PostPlain):
    def run(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            x = block.forward(x)
        return x


class PostTriples(PostNet):
    def make(self) -> None:
        self.blocks = nn.ModuleList(nn.ModuleList([f, Add(), n]) for n, f in sublayers())

    def run(self, x: Tensor) -> Tensor:
        for function, add, norm in self.blocks:  # type: ignore[misc]
            x = norm(add(function(x), x))
        return x


class PostPairs(PostPlain):
    def make(self) -> None:
        self.blocks = nn.ModuleList(
            nn.Sequential(PostRes(Attention()), PostRes(MLP())) for _ in range(DEPTH)
        )


class NormsApart(PostNet):
    """Norms and functions lie in lists of their own."""

    def make(self) -> None:
        self.norms = nn.ModuleList(Norm() for _ in range(2 * DEPTH))
        self.functions = nn.ModuleList(f for _, f in sublayers())

    def run(self, x: Tensor) -> Tensor:
        for norm, function in zip(self.norms, self.functions, strict=True):
            x = norm(x + function(x))
        return x


class FourLists(PostNet):
    """One list for each part of a layer."""

    def make(self) -> None:
        self.n1, self.n2 = (nn.ModuleList(Norm() for _ in range(DEPTH)) for _ in range(2))
        self.attentions = nn.ModuleList(Attention() for _ in range(DEPTH))
        self.mlps = nn.ModuleList(MLP() for _ in range(DEPTH))

    def run(self, x: Tensor) -> Tensor:
        for n1, n2, attention, mlp in zip(
            self.n1, self.n2, self.attentions, self.mlps, strict=True
        ):
            x = n1(x + attention(x))
            x = n2(x + mlp(x))
        return x


class TwoSums(Net):
    """Every branch is added to a raw sum as well, whose norm is added at the end."""

    def make(self) -> None:
        self.blocks = nn.ModuleList(PostPlain.Layer() for _ in range(DEPTH))

    def forward(self, ids: Tensor) -> Tensor:
        x = r = self.tok(ids)
        for block in self.blocks:
            y = block.attn(x)  # type: ignore[operator]
            r, x = r + y, block.n1(x + y)  # type: ignore[operator]
            y = block.mlp(x)  # type: ignore[operator]
            r, x = r + y, block.n2(x + y)  # type: ignore[operator]
        return self.head(x + self.final(r))


POST: dict[Callable[[], Any], str] = {
    PostPlain: "blocks", PostByForward: "blocks", PostTriples: "blocks", PostPairs: "blocks",
    NormsApart: "functions", FourLists: "attentions",
}  # fmt: skip
SPELLINGS = tuple(POST)
