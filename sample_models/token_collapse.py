"""Rank collapse: x <- LN(x + mean over tokens of W x), 24 times, which is uniform attention.

Every layer adds the same vector to all tokens, and the norm brings the sum back to unit size: what
a token has of its own shrinks by sqrt(1/2) per layer, until all tokens are one.

normdiag must find
    one stack `layers`: post, layernorm, 24 layers, 1 norm and 1 add each, no final norm
    a token cosine above 0.99 from layer 10 or so on: `token-collapse`

`build_healthy` lets every token attend to itself. Its tokens must stay apart.
"""

import torch
from torch import nn


class Layer(nn.Module):
    def __init__(self, width, uniform):
        super().__init__()
        self.uniform = uniform
        self.value = nn.Linear(width, width, bias=False)
        nn.init.orthogonal_(self.value.weight)
        self.ln = nn.LayerNorm(width)

    def forward(self, x):
        value = self.value(x)
        attended = value.mean(1, keepdim=True).expand_as(x) if self.uniform else value
        return self.ln(x + attended)


class TokenCollapse(nn.Module):
    def __init__(self, layers=24, width=64, uniform=True):
        super().__init__()
        self.layers = nn.ModuleList(Layer(width, uniform) for _ in range(layers))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


def build(uniform=True):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return TokenCollapse(uniform=uniform).eval(), torch.randn(2, 16, 64)


def build_healthy():
    return build(uniform=False)
