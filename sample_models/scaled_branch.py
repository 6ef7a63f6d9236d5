"""Every branch scaled by 1/sqrt(2L): L = 24 layers of x + s f(ln1(x)), then x + s g(ln2(x)).

With 2L branches at that scale the whole stack adds, in squared size, what one unscaled branch
would: the stream keeps its size through 48 adds.

normdiag must find
    one stack `layers`: pre, layernorm, 24 layers, 2 norms and 2 adds each, final norm `ln_f`
    a constant branch scale of 1/sqrt(48) = 0.1443 at every add
    a stream that grows by less than a fifth in all
    no finding
"""

import torch
from torch import nn


class Layer(nn.Module):
    def __init__(self, width, scale):
        super().__init__()
        self.scale = scale
        self.ln1, self.f = nn.LayerNorm(width), nn.Linear(width, width)
        self.ln2, self.g = nn.LayerNorm(width), nn.Linear(width, width)

    def forward(self, x):
        x = x + self.scale * self.f(self.ln1(x))
        return x + self.scale * self.g(self.ln2(x))


class ScaledBranch(nn.Module):
    def __init__(self, layers=24, width=64):
        super().__init__()
        self.layers = nn.ModuleList(Layer(width, (2 * layers) ** -0.5) for _ in range(layers))
        self.ln_f = nn.LayerNorm(width)

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return self.ln_f(x)


def build():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return ScaledBranch().eval(), torch.randn(2, 16, 64)
