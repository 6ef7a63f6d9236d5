"""A decoder of width 16 whose blocks a test writes itself: attention, MLP and two norms."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import nn

import normdiag
from normdiag.report.report import Report

Tensor = torch.Tensor
Wiring = Callable[["Block", Tensor], Tensor]
WIDTH = 16


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Linear(WIDTH, WIDTH) for _ in range(4))

    def forward(self, x: Tensor, memory: Tensor | None = None) -> Tensor:
        memory = x if memory is None else memory
        heads = (f(z).unflatten(-1, (2, -1)).transpose(1, 2)
                 for f, z in ((self.q, x), (self.k, memory), (self.v, memory)))  # fmt: skip
        return self.o(F.scaled_dot_product_attention(*heads).transpose(1, 2).flatten(2))


class Block(nn.Module):
    """Computes what its `wiring` says."""

    def __init__(self, wiring: Wiring) -> None:
        super().__init__()
        self.wiring = wiring
        self.attn = Attention()
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 40), nn.GELU(), nn.Linear(40, WIDTH))
        self.n1, self.n2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        return self.wiring(self, x)


class Decoder(nn.Module):
    def __init__(self, *wirings: Wiring, final: bool = True) -> None:
        super().__init__()
        self.tok = nn.Embedding(11, WIDTH)
        self.blocks = nn.ModuleList(Block(wiring) for wiring in wirings)
        self.final = nn.LayerNorm(WIDTH) if final else nn.Identity()
        self.head = nn.Linear(WIDTH, 11)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.tok(ids)
        for block in self.blocks:
            x = block(x)
        return self.head(self.final(x))


def pre(b: Block, x: Tensor) -> Tensor:
    x = x + b.attn(b.n1(x))
    return x + b.mlp(b.n2(x))


def post(b: Block, x: Tensor) -> Tensor:
    x = b.n1(x + b.attn(x))
    return b.n2(x + b.mlp(x))


def inspect_blocks(*wirings: Wiring, final: bool = True) -> Report:
    """The report of the structure, norms and stream of a decoder with one block per wiring."""
    return inspect_decoder(Decoder(*wirings, final=final))


def inspect_decoder(model: nn.Module) -> Report:
    """The same of any model of token ids, with noise on its parameters."""
    draws = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.1 * torch.randn(parameter.shape, generator=draws)
    ids = torch.randint(0, 11, (2, 7), generator=draws)
    return normdiag.inspect(model.eval(), inputs=ids, measure=("stream", "norms"))


def codes_of(report: Report) -> set[str]:
    """The codes of findings that are more than information."""
    return {each.code for each in report.findings if each.severity != "info"}
