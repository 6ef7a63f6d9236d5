"""A bfloat16 stream that is 128 times too large for its branches: most of each write is lost.

The branches write values of about 0.1 to a stream of about 128, where bfloat16 counts in steps of
a half to one: x + u is x for most elements. With the embedding at its right scale of 1 the
same writes arrive.

normdiag must find
    one stack `blocks`: pre, layernorm, 6 layers, 1 norm and 1 add each, final norm `ln_f`
    more than three quarters of all updates absorbed (x + u = x) at all 6 adds: `absorbed-update`

`build_healthy` has inputs of size 1. It must not find that.
"""

import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.ln1 = nn.LayerNorm(width)
        self.fc = nn.Linear(width, width)
        nn.init.normal_(self.fc.weight, 0.0, 0.1 * width**-0.5)
        nn.init.zeros_(self.fc.bias)

    def forward(self, x):
        return x + self.fc(self.ln1(x))


class AbsorbedUpdate(nn.Module):
    def __init__(self, layers=6, width=64):
        super().__init__()
        self.blocks = nn.ModuleList(Block(width) for _ in range(layers))
        self.ln_f = nn.LayerNorm(width)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.ln_f(x)


def build(size=128.0):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = AbsorbedUpdate().eval().bfloat16()
        return model, (size * torch.randn(2, 16, 64)).bfloat16()


def build_healthy():
    return build(size=1.0)
