"""An outlier channel: channel 7 of every embedding is 60, beside 63 channels of unit size.

Every token has it, so that it is no massive activation of one. Each norm divides by it, and what
the other channels hold comes out at a seventh of its size.

normdiag must find
    one stack `blocks`: pre, rmsnorm, 6 layers, 1 norm and 1 add each, final norm `norm_f`
    channel 7 with more than 0.9 of the energy of every norm's input: `outlier-channel`

`build_healthy` leaves that channel as it was. It must find nothing.
"""

import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.RMSNorm(width, eps=1e-6)
        self.fc = nn.Linear(width, width)

    def forward(self, x):
        return x + self.fc(self.norm(x))


class OutlierChannel(nn.Module):
    def __init__(self, layers=6, width=64, vocabulary=100, size=60.0):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.blocks = nn.ModuleList(Block(width) for _ in range(layers))
        self.norm_f = nn.RMSNorm(width, eps=1e-6)
        if size is not None:
            with torch.no_grad():
                self.embed.weight[:, 7] = size

    def forward(self, ids):
        x = self.embed(ids)
        for block in self.blocks:
            x = block(x)
        return self.norm_f(x)


def build(size=60.0):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return OutlierChannel(size=size).eval(), torch.randint(100, (2, 16))


def build_healthy():
    return build(size=None)
