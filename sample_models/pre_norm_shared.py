"""Pre-norm with one block applied 48 times, as in ALBERT or a universal transformer.

The same map is applied over and over, so the updates do not stay independent: they line up with
the directions that the map stretches most, and the stream grows faster than in `pre_norm.py`,
although every single update is no larger.

normdiag must find
    one stack `block`: pre, layernorm, 48 layers (48 runs of one module), final norm `ln_f`
    48 adds and 48 norm entries, `block.ln1`, `block.ln1@1` .. `block.ln1@47`, each with its own
        input
    the cosine between stream and update rises from about 0 to above 0.5
    no finding
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


class SharedPreNorm(nn.Module):
    def __init__(self, layers=48, width=64):
        super().__init__()
        self.layers = layers
        self.block = Block(width)
        self.ln_f = nn.LayerNorm(width)

    def forward(self, x):
        for _ in range(self.layers):
            x = self.block(x)
        return self.ln_f(x)


def build():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return SharedPreNorm().eval(), torch.randn(2, 16, 64)
