"""Pre-norm: x + fc(ln1(x)), 48 times with separate weights, and a last norm.

Each branch reads a normalised stream, so it adds as much at depth 40 as at depth 1: the
*square* of the stream's size grows by the same amount per block, and each block changes the
stream less than the one before.

normdiag must find
    one stack `blocks`: pre, layernorm, 48 layers, 1 norm and 1 add each, final norm `ln_f`
    additive growth, ||x_l|| ~ sqrt(1 + b l); the update ratio falls from 0.6 to below 0.2
    no finding

`build_without_final_norm` forgets the last norm. It must find `missing-final-norm` beside the
above: the head sees a stream of norm 33 instead of 8.
"""

import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.ln1 = nn.LayerNorm(width)
        self.fc = nn.Linear(width, width)

    def forward(self, x):
        return x + self.fc(self.ln1(x))


class PreNorm(nn.Module):
    def __init__(self, layers=48, width=64, final_norm=True):
        super().__init__()
        self.blocks = nn.ModuleList(Block(width) for _ in range(layers))
        self.ln_f = nn.LayerNorm(width) if final_norm else nn.Identity()

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.ln_f(x)


def build(**options):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return PreNorm(**options).eval(), torch.randn(2, 16, 64)


def build_without_final_norm():
    return build(final_norm=False)
