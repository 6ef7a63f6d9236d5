"""RMSNorm pre-norm as in Llama: x + swiglu(rms(x)), 24 times, the norm written out by hand.

No fused operation and no torch class says that this is a norm; only what it computes does.

normdiag must find
    one stack `layers`: pre, rmsnorm, 24 layers, 1 norm and 1 add each, final norm `norm`
    epsilon 1e-6, though no attribute of that name exists
    the input's mean square, not its variance, as what epsilon is added to
    no finding
"""

import torch
import torch.nn.functional as F
from torch import nn


class RMSNorm(nn.Module):
    def __init__(self, width, tiny=1e-6):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.tiny = tiny

    def forward(self, x):
        mean_square = x.pow(2).mean(-1, keepdim=True)
        return self.weight * (x * torch.rsqrt(mean_square + self.tiny))


class Layer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = RMSNorm(width)
        self.gate = nn.Linear(width, 3 * width, bias=False)
        self.up = nn.Linear(width, 3 * width, bias=False)
        self.down = nn.Linear(3 * width, width, bias=False)

    def forward(self, x):
        h = self.norm(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


class RMSPreNorm(nn.Module):
    def __init__(self, layers=24, width=64):
        super().__init__()
        self.layers = nn.ModuleList(Layer(width) for _ in range(layers))
        self.norm = RMSNorm(width)

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return self.norm(x)


def build():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return RMSPreNorm().eval(), torch.randn(2, 16, 64)
