"""One NaN in one norm's gain: element 5 of 64, in block 3 of 6.

One bad element of one checkpoint shard. The branch that reads it spreads it over all channels,
so the output is NaN everywhere, and the place where it began can no longer be seen there.

normdiag must find
    one stack `blocks`: pre, layernorm, 6 layers, 1 norm and 1 add each, final norm `ln_f`
    1 non-finite gain element at `blocks.3.ln1`: `non-finite-parameter`, naming
        `blocks.3.ln1.weight`
    the first non-finite value in `blocks.3.ln1`, and not in the norms and adds behind it

`build_healthy` has no NaN. It must find nothing.
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


class NaNGain(nn.Module):
    def __init__(self, value, layers=6, width=64):
        super().__init__()
        self.blocks = nn.ModuleList(Block(width) for _ in range(layers))
        self.ln_f = nn.LayerNorm(width)
        with torch.no_grad():
            self.blocks[3].ln1.weight[5] = value

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.ln_f(x)


def build(value=float("nan")):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return NaNGain(value).eval(), torch.randn(2, 16, 64)


def build_healthy():
    return build(value=1.0)
