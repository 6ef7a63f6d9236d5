"""Post-norm: ln(x + mlp(x)), 64 times, as in the first transformer and in BERT, only deeper.

The stream is normalised after every add, so its size is constant and there is nothing for a
final norm to do; but the way back for the gradient leads through all 64 norms.

normdiag must find
    one stack `layers`: post, layernorm, 64 layers, 1 norm and 1 add each
    no final norm: the last layer's own norm is not one
    every skip operand, but the first, has norm sqrt(64) = 8
    `deep-post-norm`
"""

import torch
from torch import nn


class Layer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.ReLU(), nn.Linear(4 * width, width)
        )
        self.ln = nn.LayerNorm(width)

    def forward(self, x):
        return self.ln(x + self.mlp(x))


class PostNorm(nn.Module):
    def __init__(self, layers=64, width=64):
        super().__init__()
        self.layers = nn.ModuleList(Layer(width) for _ in range(layers))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


def build():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return PostNorm().eval(), torch.randn(2, 16, 64)
