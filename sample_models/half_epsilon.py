"""An epsilon that half precision does not have: BERT's 1e-12 in a float16 model.

The smallest number of float16 is 6e-8; a kernel that computes the norm in float16 adds 0. Nothing
is wrong as long as every row varies, and PyTorch's own kernel computes in float32, so this waits
for an export and a constant row.

normdiag must find
    one stack `blocks`: pre, layernorm, 6 layers, 1 norm and 1 add each, final norm `ln_f`
    an epsilon of 1e-12 at all 7 norms of a float16 model: `epsilon-underflow`

`build_healthy` has an epsilon of 1e-5. It must find nothing.
"""

import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, width, eps):
        super().__init__()
        self.ln1 = nn.LayerNorm(width, eps=eps)
        self.fc = nn.Linear(width, width)

    def forward(self, x):
        return x + self.fc(self.ln1(x))


class HalfPreNorm(nn.Module):
    def __init__(self, eps, layers=6, width=64):
        super().__init__()
        self.blocks = nn.ModuleList(Block(width, eps) for _ in range(layers))
        self.ln_f = nn.LayerNorm(width, eps=eps)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.ln_f(x)


def build(eps=1e-12):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return HalfPreNorm(eps).eval().half(), torch.randn(2, 16, 64).half()


def build_healthy():
    return build(eps=1e-5)
