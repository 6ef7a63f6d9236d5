"""A pre-norm stack, and the same one with a formula in its norms' place that is no norm.

`build`: 12 blocks x + fc(n(x)) of width 64, then `norm_f`; n is x / (mean square + eps), without
the root: its output has the rms 1 / rms(x).

normdiag must find
    one stack `blocks`: pre, 12 layers, 1 norm and 1 add each, final norm `norm_f`
    in `build`, 13 calls that divide x by its mean square and an output that follows the input's
        size, as its inverse: `near-norm`
    in `build_deviation`, 13 calls that divide x by its standard deviation with the mean left in:
        `near-norm`, for information
    in `build_healthy`, with the root, an RMSNorm: nothing
"""

import torch
from torch import nn


class Formula(nn.Module):
    """A gain times what `scale_rows` makes of x."""

    def __init__(self, width, scale_rows):
        super().__init__()
        self.scale_rows = scale_rows
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return self.scale_rows(x) * self.weight


class Block(nn.Module):
    def __init__(self, width, scale_rows):
        super().__init__()
        self.norm = Formula(width, scale_rows)
        self.fc = nn.Linear(width, width)

    def forward(self, x):
        return x + self.fc(self.norm(x))


class Stack(nn.Module):
    def __init__(self, scale_rows, layers=12, width=64):
        super().__init__()
        self.blocks = nn.ModuleList(Block(width, scale_rows) for _ in range(layers))
        self.norm_f = Formula(width, scale_rows)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.norm_f(x)


def divide_by_square(x):
    return x / (x.square().mean(-1, keepdim=True) + 1e-6)


def divide_by_deviation(x):
    return x / torch.sqrt(x.var(-1, keepdim=True, correction=0) + 1e-6)


def divide_by_rms(x):
    return x / torch.sqrt(x.square().mean(-1, keepdim=True) + 1e-6)


def build(scale_rows=divide_by_square):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return Stack(scale_rows).eval(), torch.randn(2, 16, 64)


def build_deviation():
    return build(divide_by_deviation)


def build_healthy():
    return build(divide_by_rms)
