"""Two finite numbers whose sum is not: block 3 of 6 adds 30000 to a stream that holds 60000.

The model runs in float16, which ends at 65504. No module ever returns anything else than finite
numbers before its own add: the infinity is made by a `+`, and the norm behind it, which turns it
into NaN, is what gets the blame where only modules are watched.

normdiag must find
    one stack `blocks`: pre, layernorm, 6 layers, 1 norm and 1 add each, final norm `ln_f`
    the first non-finite value at `blocks.3/add#0`, in channel 7, from operands of about 60000
        and 30000: `non-finite-activation`

`build_healthy` is the same model in float32. It must not find that.
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


class OverflowingAdd(nn.Module):
    def __init__(self, layers=6, width=64):
        super().__init__()
        self.blocks = nn.ModuleList(Block(width) for _ in range(layers))
        self.ln_f = nn.LayerNorm(width)
        with torch.no_grad():
            self.blocks[1].fc.bias[7] = 60000
            self.blocks[3].fc.bias[7] = 30000

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.ln_f(x)


def build(dtype=torch.float16):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return OverflowingAdd().eval().to(dtype), torch.randn(2, 16, 64).to(dtype)


def build_healthy():
    return build(dtype=torch.float32)
