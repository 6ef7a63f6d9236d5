"""The epsilon of BERT, 1e-12, in float16, whose smallest number above zero is 6e-8.

PyTorch computes the norm in float32 and nothing happens; a runtime that stays in half precision
divides the first constant row it meets by zero.

normdiag must find
    one stack `blocks`: post, layernorm, 6 layers with 1 norm and 1 residual add each
    at all six norms an epsilon that rounds to 0 in float16: `epsilon-underflow`

`build_healthy` has an epsilon of 1e-5. It must find nothing.
"""

import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, width, eps):
        super().__init__()
        self.fc = nn.Linear(width, width)
        self.ln = nn.LayerNorm(width, eps=eps)

    def forward(self, x):
        return self.ln(x + self.fc(x))


class HalfEpsilon(nn.Module):
    def __init__(self, eps, layers=6, width=64):
        super().__init__()
        self.blocks = nn.ModuleList(Block(width, eps) for _ in range(layers))

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x


def build(eps=1e-12):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return HalfEpsilon(eps).half().eval(), torch.randn(2, 16, 64).half()


def build_healthy():
    return build(eps=1e-5)
