"""Sandwich norm: x + rms(mlp(rms(x))), 24 times, as in Gemma 2 and Peri-LN.

The second norm fixes what a branch adds: exactly sqrt(64) = 8 per token, whatever its weights
are. So the square of the stream's size grows by 64 per block.

normdiag must find
    one stack `blocks`: sandwich, rmsnorm, 24 layers, 2 norms and 1 add each, final norm
        `norm_f`
    every branch norm 8; additive growth
    no finding
"""

import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm_in = nn.RMSNorm(width, eps=1e-6)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )
        self.norm_out = nn.RMSNorm(width, eps=1e-6)

    def forward(self, x):
        return x + self.norm_out(self.mlp(self.norm_in(x)))


class Sandwich(nn.Module):
    def __init__(self, layers=24, width=64):
        super().__init__()
        self.blocks = nn.ModuleList(Block(width) for _ in range(layers))
        self.norm_f = nn.RMSNorm(width, eps=1e-6)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.norm_f(x)


def build():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return Sandwich().eval(), torch.randn(2, 16, 64)
