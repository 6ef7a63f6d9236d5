"""A stream that float32 holds and float16 does not: block 2 of 6 writes 90000 to one channel.

Every reader of the stream is a norm, so the whole stream may be scaled by a power of two: with a
quarter of all writes, twice the largest value fits into float16.

normdiag must find
    one stack `blocks`: pre, layernorm, 6 layers, 1 norm and 1 add each, final norm `ln_f`
    values of about 90000 from `blocks.2/add#0` on, 1.37 times the largest float16 number, and
        the factor 2^-2: `overflow-risk`, for information, as the model is float32

`build_healthy` writes 900. It must not find that.
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


class LargeStream(nn.Module):
    def __init__(self, written, layers=6, width=64):
        super().__init__()
        self.blocks = nn.ModuleList(Block(width) for _ in range(layers))
        self.ln_f = nn.LayerNorm(width)
        with torch.no_grad():
            self.blocks[2].fc.bias[7] = written

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.ln_f(x)


def build(written=90000.0):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return LargeStream(written).eval(), torch.randn(2, 16, 64)


def build_healthy():
    return build(written=900.0)
