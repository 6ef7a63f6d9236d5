"""A branch whose weights have shrunk to nothing: in block 8 of 12, to a millionth.

The block runs, its norm is healthy and its parameters are finite; it just does not do anything.
Weight decay does this to a branch that gets no gradient.

normdiag must find
    one stack `blocks`: pre, layernorm, 12 layers, 1 norm and 1 add each, final norm `ln_f`
    at `blocks.8/add#0` an update ratio below 1e-6, and above 0.2 everywhere else: `silent-branch`

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


class DeadBranch(nn.Module):
    def __init__(self, layers=12, width=64, dead=8):
        super().__init__()
        self.blocks = nn.ModuleList(Block(width) for _ in range(layers))
        self.ln_f = nn.LayerNorm(width)
        if dead is not None:
            with torch.no_grad():
                for parameter in self.blocks[dead].fc.parameters():
                    parameter.mul_(1e-6)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.ln_f(x)


def build(dead=8):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return DeadBranch(dead=dead).eval(), torch.randn(2, 16, 64)


def build_healthy():
    return build(dead=None)
