"""Hyper-connections in the ways people write them; every block reads, mixes and writes streams."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn

from tests.structure.small_decoder import WIDTH, Tensor

STREAMS = 3
Wiring = Callable[["Hyper", Tensor], Tensor]


class Hyper(nn.Module):
    """One branch with weights of its streams; its `wiring` says how they are applied."""

    def __init__(self, wiring: Wiring) -> None:
        super().__init__()
        self.wiring = wiring
        self.norm, self.linear = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDTH)
        self.read, self.write = nn.Parameter(torch.rand(STREAMS)), nn.Parameter(torch.rand(STREAMS))
        self.mix = nn.Parameter(torch.eye(STREAMS) + 0.2 * torch.rand(STREAMS, STREAMS))
        self.gate, self.scale = nn.Linear(WIDTH, 2), nn.Parameter(torch.rand(WIDTH))

    def branch(self, x: Tensor) -> Tensor:
        """F(N(x))"""
        return torch.tanh(self.linear(self.norm(x)))

    def forward(self, x: Tensor) -> Tensor:
        return self.wiring(self, x)


def by_einsum(b: Hyper, x: Tensor) -> Tensor:
    y = b.branch(torch.einsum("s,btsw->btw", b.read, x))
    return torch.einsum("rs,btsw->btrw", b.mix, x) + torch.einsum("btw,s->btsw", y, b.write)


def by_sum(b: Hyper, x: Tensor) -> Tensor:
    y = b.branch((b.read[:, None] * x).sum(2))
    return x + y.unsqueeze(2) * b.write[:, None]


def by_matmul(b: Hyper, x: Tensor) -> Tensor:
    y = b.branch((b.read[None] @ x).squeeze(2))
    return b.mix @ x + b.write[:, None] @ y[:, :, None]


def with_offset(b: Hyper, x: Tensor) -> Tensor:
    """The weights lie around 1 / S and 1; a residual multiplier beside them."""
    y = b.branch(torch.einsum("s,btsw->btw", 1 / STREAMS + b.read, x))
    return x + 0.5 * ((1 + b.write)[:, None] * y[:, :, None])


def of_one_matrix(b: Hyper, x: Tensor) -> Tensor:
    """The weights of the branch's input are the first column of the mixing matrix."""
    whole = torch.cat([b.read[:, None], b.mix], 1)
    mixed = torch.einsum("st,bnsw->bntw", whole, x)
    y = b.branch(mixed[:, :, 0])
    return mixed[:, :, 1:] + b.write[:, None] * y[:, :, None]


def mean_and_copies(b: Hyper, x: Tensor) -> Tensor:
    """No weights: the branch reads the mean and is added to each."""
    return x + b.branch(x.mean(2)).unsqueeze(2)


def of_data(b: Hyper, x: Tensor) -> Tensor:
    """Weights that every token computes."""
    read, write = b.gate(b.norm(x)).unbind(-1)
    y = b.branch((read.sigmoid().unsqueeze(-2) @ x).squeeze(2))
    return x + y[:, :, None] * write.tanh().unsqueeze(-1)


def with_layer_scale(b: Hyper, x: Tensor) -> Tensor:
    """One factor per feature beside one per stream."""
    y = b.scale * b.branch(torch.einsum("s,btsw->btw", b.read, x))
    return x + b.write[:, None] * y[:, :, None]


def folded(b: Hyper, x: Tensor) -> Tensor:
    """The streams lie among the sequences: (sequences * streams, tokens, features)."""
    apart = x.unflatten(0, (-1, STREAMS))
    y = b.branch(torch.einsum("s,bstw->btw", b.read, apart))
    mixed = torch.einsum("rs,bstw->brtw", b.mix, apart).flatten(0, 1)
    return mixed + torch.einsum("btw,s->bstw", y, b.write).flatten(0, 1)


def wide(b: Hyper, x: Tensor) -> Tensor:
    """The streams lie among the features: (sequences, tokens, streams * features)."""
    y = b.branch(torch.einsum("s,btsw->btw", b.read, x.unflatten(-1, (STREAMS, -1))))
    return x + (b.write[:, None] * y[:, :, None]).flatten(2)


LEARNED = (by_einsum, by_sum, by_matmul, with_offset, of_one_matrix, with_layer_scale, folded, wide)


class HyperNet(nn.Module):
    """Embedding, blocks, sum of the streams, norm."""

    def __init__(self, wiring: Wiring, layers: int = 3) -> None:
        super().__init__()
        self.wiring = wiring
        self.tok = nn.Embedding(11, WIDTH)
        self.blocks = nn.ModuleList(Hyper(wiring) for _ in range(layers))
        self.final = nn.LayerNorm(WIDTH)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.spread(self.tok(ids))
        for block in self.blocks:
            x = block(x)
        return self.final(self.take_apart(x).sum(2))

    def spread(self, x: Tensor) -> Tensor:
        """Copy a value (sequences, tokens, features) to every stream."""
        if self.wiring is folded:
            return x.repeat_interleave(STREAMS, 0)
        if self.wiring is wide:
            return x.repeat(1, 1, STREAMS)
        return x[:, :, None].expand(-1, -1, STREAMS, -1)

    def take_apart(self, x: Tensor) -> Tensor:
        """(sequences, tokens, streams, features)"""
        if self.wiring is folded:
            return x.unflatten(0, (-1, STREAMS)).transpose(1, 2)
        return x.unflatten(-1, (STREAMS, -1)) if self.wiring is wide else x
