"""A passthrough merge: blocks 2 to 5 of 6 appear a second time, as blocks 6 to 9.

Every copy has parameters of its own, equal to the last bit. Nothing that is measured of the stream
is out of the ordinary; the weights alone tell.

normdiag must find
    one stack `blocks`: pre, layernorm, 10 layers, 1 norm and 1 add each, final norm `ln_f`
    layers 2 and 6, 3 and 7, 4 and 8, 5 and 9 equal in all parameters: `duplicate-layer`

`build_healthy` draws ten different blocks. It must find nothing.
"""

from copy import deepcopy

import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.ln1 = nn.LayerNorm(width)
        self.fc = nn.Linear(width, width)

    def forward(self, x):
        return x + self.fc(self.ln1(x))


class Merged(nn.Module):
    def __init__(self, plan, width=64):
        super().__init__()
        blocks = [Block(width) for _ in range(max(plan) + 1)]
        self.blocks = nn.ModuleList(deepcopy(blocks[i]) for i in plan)
        self.ln_f = nn.LayerNorm(width)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.ln_f(x)


def build(plan=(0, 1, 2, 3, 4, 5, 2, 3, 4, 5)):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return Merged(plan).eval(), torch.randn(2, 16, 64)


def build_healthy():
    return build(plan=range(10))
