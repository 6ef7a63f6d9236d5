"""A float16 norm that squares in float16: one channel of 300 makes the mean of squares infinite.

The norm divides by infinity and gives zeros, so all branches behind it see nothing. No value is
ever infinite where a module could be watched: what the norm takes and what it gives are finite.

normdiag must find
    one stack `blocks`: pre, rmsnorm, 6 layers, 1 norm and 1 add each, final norm `ln_f`
    squares of 90000 at the norms of blocks 2 to 5 and at `ln_f`, above 65504, taken in float16:
        `square-overflow`

`build_healthy` casts to float32 before the square, as Llama does. It must not find that.
"""

import torch
from torch import nn


class RMSNorm(nn.Module):
    def __init__(self, width, cast):
        super().__init__()
        self.weight, self.cast = nn.Parameter(torch.ones(width)), cast

    def forward(self, x):
        wide = x.float() if self.cast else x
        inverse = torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-5)
        return self.weight * (wide * inverse).to(x.dtype)


class Block(nn.Module):
    def __init__(self, width, cast):
        super().__init__()
        self.ln1 = RMSNorm(width, cast)
        self.fc = nn.Linear(width, width)

    def forward(self, x):
        return x + self.fc(self.ln1(x))


class HalfSquare(nn.Module):
    def __init__(self, cast, layers=6, width=64):
        super().__init__()
        self.blocks = nn.ModuleList(Block(width, cast) for _ in range(layers))
        self.ln_f = RMSNorm(width, cast)
        with torch.no_grad():
            self.blocks[1].fc.bias[7] = 300

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.ln_f(x)


def build(cast=False):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return HalfSquare(cast).eval().half(), torch.randn(2, 16, 64).half()


def build_healthy():
    return build(cast=True)
