"""A branch that drowns the stream: the last weights of block 6 of 12 are 100 times too large.

As if an output norm or a branch scale had been lost there. What six blocks have written is a small
part of what leaves that block, and the branches behind it write too little to matter.

normdiag must find
    one stack `blocks`: pre, layernorm, 12 layers, 1 norm and 1 add each, final norm `ln_f`
    at `blocks.6/add#0` an update ratio above 20, and below 1 everywhere else: `overwriting-branch`

`build_healthy` leaves that block as it was. It must find nothing.
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


class OverwritingBranch(nn.Module):
    def __init__(self, layers=12, width=64, loud=6):
        super().__init__()
        self.blocks = nn.ModuleList(Block(width) for _ in range(layers))
        self.ln_f = nn.LayerNorm(width)
        if loud is not None:
            with torch.no_grad():
                self.blocks[loud].fc.weight.mul_(100)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.ln_f(x)


def build(loud=6):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return OverwritingBranch(loud=loud).eval(), torch.randn(2, 16, 64)


def build_healthy():
    return build(loud=None)
