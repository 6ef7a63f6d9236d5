"""No norm at all: x + fc(x), 48 times.

A branch that reads the raw stream adds in proportion to it. The stream is multiplied by about
sqrt(1 + 1/3) per block (the default weights of `nn.Linear` keep a third of the squared size)
and has grown several hundredfold at the end.

normdiag must find
    one stack `blocks`: none, 48 layers, 0 norms and 1 add each, no final norm
    geometric growth, a factor of about 1.15 per add, and as much of the gradient on its way back
    `geometric-growth`, `exploding-gradient`
"""

import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.fc = nn.Linear(width, width)

    def forward(self, x):
        return x + self.fc(x)


class NoNorm(nn.Module):
    def __init__(self, layers=48, width=64):
        super().__init__()
        self.blocks = nn.ModuleList(Block(width) for _ in range(layers))

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x


def build():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return NoNorm().eval(), torch.randn(2, 16, 64)
