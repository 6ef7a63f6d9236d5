"""A norm that sees a constant: in block 3 of 6 every ReLU before the inner norm is dead.

A bias of -10 keeps all hidden units of that block below zero. The norm behind them divides 0 by
sqrt(epsilon), so its output is its bias whatever the token is, and no gradient comes through.

normdiag must find
    one stack `blocks`: pre, layernorm, 6 layers, 1 norm and 1 add each, final norm `ln_f`
    beside these, `ln2` as an inner norm of every branch
    at `blocks.3.ln2` a variance of 0 for every token: `constant-input`

`build_healthy` has the bias at 0. It must find nothing.
"""

import torch
from torch import nn


class Block(nn.Module):
    """The sub-LN branch of MAGNETO: a second norm behind the non-linearity."""

    def __init__(self, width):
        super().__init__()
        self.ln1 = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.ln2 = nn.LayerNorm(4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x):
        return x + self.down(self.ln2(torch.relu(self.up(self.ln1(x)))))


class DeadReLU(nn.Module):
    def __init__(self, bias, layers=6, width=64):
        super().__init__()
        self.blocks = nn.ModuleList(Block(width) for _ in range(layers))
        self.ln_f = nn.LayerNorm(width)
        nn.init.constant_(self.blocks[3].up.bias, bias)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.ln_f(x)


def build(bias=-10.0):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return DeadReLU(bias).eval(), torch.randn(2, 16, 64)


def build_healthy():
    return build(bias=0.0)
