"""Small modules that the programs of these tests are built of, with weights that look trained."""

from __future__ import annotations

from typing import TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

WIDTH, HEADS, DEPTH, VOCAB = 24, 3, 4, 50
IDS = torch.randint(0, VOCAB, (2, 9), generator=torch.Generator().manual_seed(3))
Model = TypeVar("Model", bound=nn.Module)


class Norm(nn.Module):
    def __init__(self, width: int = WIDTH) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight


class Attention(nn.Module):
    """Tokens lie on axis 1, or on axis 0."""

    def __init__(self, width: int = WIDTH, tokens: int = 1) -> None:
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Linear(width, width, bias=False) for _ in range(4))
        self.tokens = tokens

    def split_heads(self, x: Tensor) -> Tensor:
        if self.tokens == 0:
            x = x.transpose(0, 1)
        return x.unflatten(-1, (HEADS, -1)).transpose(1, 2)

    def project(self, x: Tensor, y: Tensor, v: Tensor | None = None) -> Tensor:
        """Queries from x, keys and values from y."""
        v = self.v(y) if v is None else v
        q, k, v = (self.split_heads(z) for z in (self.q(x), self.k(y), v))
        z = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
        return self.o(z.transpose(0, 1) if self.tokens == 0 else z)

    def forward(self, x: Tensor, y: Tensor | None = None) -> Tensor:
        return self.project(x, x if y is None else y)


class MLP(nn.Module):
    def __init__(self, width: int = WIDTH) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(F.gelu(self.up(x)))


class PreRes(nn.Module):
    """x + f(norm(x))."""

    def __init__(self, function: nn.Module, width: int = WIDTH) -> None:
        super().__init__()
        self.norm, self.fn = Norm(width), function

    def forward(self, x: Tensor) -> Tensor:
        return x + self.fn(self.norm(x))


class Net(nn.Module):
    """Embedding, the stream that `run` computes, norm and head."""

    def __init__(self) -> None:
        super().__init__()
        self.tok, self.final = nn.Embedding(VOCAB, WIDTH), Norm()
        self.head = nn.Linear(WIDTH, VOCAB, bias=False)
        self.make()

    def make(self) -> None:
        raise NotImplementedError

    def run(self, x: Tensor) -> Tensor:
        raise NotImplementedError

    def forward(self, ids: Tensor) -> Tensor:
        return self.head(self.final(self.run(self.tok(ids))))


def draw_weights(model: Model) -> Model:
    """Weights of a sensible size, gains near 1, the same at every call; eval mode."""
    draws = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for p in model.parameters():
            noise = torch.randn(p.shape, generator=draws)
            if p.dim() == 1 or p.shape == (DEPTH, WIDTH):
                p.copy_(float(p.mean() > 0.15) * p.mean() + 0.1 * noise)
            else:
                p.copy_(noise * (1.0 if p.shape[0] == VOCAB else 0.8 * p.shape[-1] ** -0.5))
    return model.eval()
