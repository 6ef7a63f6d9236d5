"""A small pre-norm decoder, in the forms in which people wrap, shard, quantise and trace models."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

WIDTH, LAYERS = 32, 3


class Mlp(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(F.gelu(self.up(x)))


class Mixer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Linear(WIDTH, WIDTH) for _ in range(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        weights = torch.softmax(self.q(x) @ self.k(x).transpose(1, 2) / WIDTH**0.5, -1)
        return self.o(weights @ self.v(x))


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.n1, self.attn = nn.LayerNorm(WIDTH), Mixer()
        self.n2, self.mlp = nn.LayerNorm(WIDTH), Mlp()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attn(self.n1(x))
        return x + self.mlp(self.n2(x))


class Decoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.final = nn.LayerNorm(WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = block(x)
        return self.final(x)


def build_decoder() -> nn.Module:
    """The same weights each time; gains around 1."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = Decoder()
        for norm in (m for m in model.modules() if isinstance(m, nn.LayerNorm)):
            nn.init.normal_(norm.weight, 1.0, 0.1)
        return model.eval()


def build_input() -> dict[str, Any]:
    """Two sequences of vectors."""
    return {"x": torch.randn(2, 12, WIDTH, generator=torch.Generator().manual_seed(1))}


@contextmanager
def single_process() -> Iterator[Any]:
    """The mesh of a process group with one process in it."""
    from torch.distributed.device_mesh import init_device_mesh

    with tempfile.TemporaryDirectory() as folder:
        where = (Path(folder) / "group").as_uri()
        dist.init_process_group("gloo", rank=0, world_size=1, init_method=where)
        try:
            yield init_device_mesh("cpu", (1,))
        finally:
            dist.destroy_process_group()
