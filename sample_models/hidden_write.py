"""A write to the stream that no tracer of torch sees: block 3 of 6 doubles a channel through numpy.

A numpy view shares the tensor's memory but not its bookkeeping: there is no operation and no new
version. What goes on from block 3 is not what its add has made.

normdiag must find
    one stack `blocks`: pre, layernorm, 6 layers, 1 norm and 1 add each, final norm `ln_f`
    that the stream does not close, with layer 3 or 4 as the place: `replay-mismatch`

`build_healthy` leaves the write out. It must find nothing.
"""

import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, width, hides):
        super().__init__()
        self.hides = hides
        self.ln1 = nn.LayerNorm(width)
        self.fc = nn.Linear(width, width)

    def forward(self, x):
        x = x + self.fc(self.ln1(x))
        if self.hides:
            x.detach().numpy()[..., 7] *= 2
        return x


class HiddenWrite(nn.Module):
    def __init__(self, hides, layers=6, width=64):
        super().__init__()
        self.blocks = nn.ModuleList(Block(width, i == hides) for i in range(layers))
        self.ln_f = nn.LayerNorm(width)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.ln_f(x)


def build(hides=3):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return HiddenWrite(hides).eval(), torch.randn(2, 16, 64)


def build_healthy():
    return build(hides=None)
