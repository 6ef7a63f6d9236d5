"""A write that PyTorch does not see: after block 3 of 6 one channel of the stream is tripled
through numpy.

No operation is dispatched, so no tracer can record it, as with a kernel that works in place on
a raw pointer. What the tracer knows of the stream no longer adds up, and that it can tell.

normdiag must find
    one stack `blocks`: pre, layernorm, 6 layers with 1 norm and 1 residual add each, final norm
        `ln_f`
    a stream that does not close between layers 3 and 4: `replay-mismatch`

`build_healthy` leaves the stream alone. It must find nothing.
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


class HiddenWrite(nn.Module):
    def __init__(self, factor, layers=6, width=64):
        super().__init__()
        self.factor = factor
        self.blocks = nn.ModuleList(Block(width) for _ in range(layers))
        self.ln_f = nn.LayerNorm(width)

    def forward(self, x):
        for depth, block in enumerate(self.blocks):
            x = block(x)
            if depth == 3 and self.factor != 1:
                x.detach().numpy()[..., 7] *= self.factor
        return self.ln_f(x)


def build(factor=3.0):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return HiddenWrite(factor).eval(), torch.randn(2, 16, 64)


def build_healthy():
    return build(factor=1)
