"""A forgotten skip: block 3 of 6 returns f(h) + g(h) where it should return x + f(h) + g(h).

It is an addition of the stream's width, but neither operand is what the other was made from: no
stream runs through it. What was written before block 3 reaches the output through that block only.

normdiag must find
    an unexplained addition in `blocks.3`: `incomplete-trace`

`build_healthy` has the skip. It must find
    one stack `blocks`: pre, layernorm, 6 layers, 1 norm and 1 add each, final norm `ln_f`
    nothing unexplained
"""

import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, width, skip):
        super().__init__()
        self.skip = skip
        self.ln1 = nn.LayerNorm(width)
        self.f, self.g = nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, x):
        h = self.ln1(x)
        update = self.f(h) + self.g(h)
        return x + update if self.skip else update


class ForgottenSkip(nn.Module):
    def __init__(self, forgets, layers=6, width=64):
        super().__init__()
        self.blocks = nn.ModuleList(Block(width, skip=i != forgets) for i in range(layers))
        self.ln_f = nn.LayerNorm(width)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.ln_f(x)


def build(forgets=3):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return ForgottenSkip(forgets).eval(), torch.randn(2, 16, 64)


def build_healthy():
    return build(forgets=None)
