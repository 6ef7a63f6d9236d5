"""Parallel branches: x + attention(ln(x)) + mlp(ln(x)), 12 times, as in GPT-J and PaLM.

Both branches read the same normalised value and are added together: one write-back to the
stream per block, with two branches.

normdiag must find
    one stack `blocks`: parallel-pre, layernorm, 12 layers, 1 norm and 1 add each, final norm
        `ln_f`
    every add with 2 branches; the branch that is measured is their sum
    no finding
"""

import torch
import torch.nn.functional as F
from torch import nn


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x):
        batch, tokens, width = x.shape
        q, k, v = self.qkv(x).view(batch, tokens, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(y.transpose(1, 2).reshape(batch, tokens, width))


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.ln = nn.LayerNorm(width)
        self.attention = Attention(width, heads=4)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x):
        h = self.ln(x)
        return x + self.attention(h) + self.mlp(h)


class Parallel(nn.Module):
    def __init__(self, layers=12, width=64):
        super().__init__()
        self.blocks = nn.ModuleList(Block(width) for _ in range(layers))
        self.ln_f = nn.LayerNorm(width)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.ln_f(x)


def build():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return Parallel().eval(), torch.randn(2, 16, 64)
