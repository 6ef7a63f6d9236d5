"""A stack in bfloat16 whose gains are all exactly 1, as at initialisation.

normdiag must find
    one stack `blocks`: pre, layernorm, 6 layers, 1 norm and 1 add each, final norm `ln_f`
    in bfloat16, every gain exactly 1: `unit-gain`

`build_healthy` has gains drawn around 1. It must find nothing.
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


class UnitGains(nn.Module):
    def __init__(self, spread, layers=6, width=64):
        super().__init__()
        self.blocks = nn.ModuleList(Block(width) for _ in range(layers))
        self.ln_f = nn.LayerNorm(width)
        with torch.no_grad():
            for norm in (m for m in self.modules() if isinstance(m, nn.LayerNorm)):
                norm.weight.add_(spread * torch.randn(width))

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.ln_f(x)


def build(spread=0.0):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = UnitGains(spread).eval().to(torch.bfloat16)
        return model, torch.randn(2, 16, 64).to(torch.bfloat16)


def build_healthy():
    return build(spread=0.1)
