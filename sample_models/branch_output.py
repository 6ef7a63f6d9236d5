"""Branch-output norm: x + rms(mlp(x)), 24 times, as in OLMo 2 and Swin v2.

The branch reads the raw stream and only what it writes is normalised. It looks like pre-norm in
a list of modules (one norm per block and a final one); only the data flow tells the two apart.

normdiag must find
    one stack `blocks`: branch-output, rmsnorm, 24 layers, 1 norm and 1 add each, final norm
        `norm_f`
    every branch norm 8 = sqrt(64)
    no finding
"""

import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )
        self.norm = nn.RMSNorm(width, eps=1e-6)

    def forward(self, x):
        return x + self.norm(self.mlp(x))


class BranchOutput(nn.Module):
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
        return BranchOutput().eval(), torch.randn(2, 16, 64)
