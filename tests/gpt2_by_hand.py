"""GPT-2 as somebody else would write it: other names, weights not transposed, attention by hand."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn


class Half(nn.Module):
    """A norm and a branch, one of the two halves of a layer."""

    def __init__(self, width: int, hidden: int, wide: int, heads: int | None) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.ones(width))
        self.shift = nn.Parameter(torch.zeros(width))
        self.into = nn.Linear(width, wide)
        self.back = nn.Linear(hidden, width)
        self.heads = heads
        self.eps = 1e-5

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        mean = x.mean(-1, keepdim=True)
        variance = (x - mean).pow(2).mean(-1, keepdim=True)
        z = (x - mean) / torch.sqrt(variance + self.eps) * self.gain + self.shift
        z = self.into(z)
        z = F.gelu(z, approximate="tanh") if self.heads is None else attend(z, self.heads)
        return x + self.back(z)


def attend(qkv: torch.Tensor, heads: int) -> torch.Tensor:
    batch, length, wide = qkv.shape
    q, k, v = (t.view(batch, length, heads, -1).transpose(1, 2) for t in qkv.split(wide // 3, -1))
    scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
    hidden = torch.ones(length, length, dtype=torch.bool).triu(1)
    weights = scores.masked_fill(hidden, -math.inf).softmax(-1)
    return (weights @ v).transpose(1, 2).reshape(batch, length, wide // 3)


class GPT2(nn.Module):
    """forward takes `tokens`, (batch, length)."""

    def __init__(
        self, vocabulary: int, positions: int, width: int, layers: int, heads: int
    ) -> None:
        super().__init__()
        self.words = nn.Embedding(vocabulary, width)
        self.places = nn.Embedding(positions, width)
        self.tower = nn.ModuleList(
            nn.Sequential(
                Half(width, width, 3 * width, heads), Half(width, 4 * width, 4 * width, None)
            )
            for _ in range(layers)
        )
        self.last = nn.LayerNorm(width, eps=1e-5)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.words(tokens) + self.places(torch.arange(tokens.shape[1]))
        for layer in self.tower:
            x = layer(x)
        return self.last(x) @ self.words.weight.T


def convert_weights(original: Any) -> GPT2:
    """The same weights as a `GPT2LMHeadModel` has."""
    config, source = original.config, original.transformer
    made = GPT2(config.vocab_size, config.n_positions, config.n_embd, config.n_layer, config.n_head)
    with torch.no_grad():
        made.words.weight.copy_(source.wte.weight)
        made.places.weight.copy_(source.wpe.weight)
        for layer, theirs in zip(made.tower, source.h, strict=True):
            _fill(layer[0], theirs.ln_1, theirs.attn.c_attn, theirs.attn.c_proj)
            _fill(layer[1], theirs.ln_2, theirs.mlp.c_fc, theirs.mlp.c_proj)
        made.last.load_state_dict(source.ln_f.state_dict())
    return made.eval()


def _fill(half: Half, norm: Any, into: Any, back: Any) -> None:
    half.gain.copy_(norm.weight)
    half.shift.copy_(norm.bias)
    for mine, theirs in ((half.into, into), (half.back, back)):
        mine.weight.copy_(theirs.weight.T)
        mine.bias.copy_(theirs.bias)
