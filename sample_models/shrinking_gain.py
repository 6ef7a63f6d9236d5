"""A gain that shrinks with depth: in block l the gain of the norm is 0.8^l.

The norms are intact and see a healthy stream, but what they pass on is ever smaller, so the
deep blocks hardly write anything: the second half of the model is there for nothing.

normdiag must find
    one stack `blocks`: pre, layernorm, 24 layers, 1 norm and 1 add each, final norm `ln_f`
    gains of rms 1, 0.8, 0.64 .. 0.8^23 = 0.0059, and an update ratio that falls with them,
        below 0.005
"""

import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, width, gain):
        super().__init__()
        self.ln1 = nn.LayerNorm(width)
        self.fc = nn.Linear(width, width, bias=False)
        nn.init.constant_(self.ln1.weight, gain)

    def forward(self, x):
        return x + self.fc(self.ln1(x))


class ShrinkingGain(nn.Module):
    def __init__(self, layers=24, width=64, shrink=0.8):
        super().__init__()
        self.blocks = nn.ModuleList(Block(width, shrink**depth) for depth in range(layers))
        self.ln_f = nn.LayerNorm(width)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.ln_f(x)


def build():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return ShrinkingGain().eval(), torch.randn(2, 16, 64)
