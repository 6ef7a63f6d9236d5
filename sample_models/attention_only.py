"""Attention and nothing else: x + attention(x), 12 times, without norms or networks.

A row of softmax weights is an average, and averages of averages soon are one and the same vector:
without the skip path (`build(skip=False)`) all tokens are alike to seven digits after three layers
(Dong et al. 2021). With it, it takes a dozen.

normdiag must find
    one stack `layers`: none, 12 layers, 0 norms and 1 add each, final norm `norm`
    a token cosine that rises from near 0 to above 0.8
"""

import torch
from torch import nn


class Attention(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(width, width, bias=False) for _ in range(3))
        for linear in (self.query, self.key, self.value):
            nn.init.normal_(linear.weight, std=width**-0.5)

    def forward(self, x):
        scores = self.query(x) @ self.key(x).transpose(-1, -2) * x.shape[-1] ** -0.5
        return scores.softmax(-1) @ self.value(x)


class AttentionOnly(nn.Module):
    def __init__(self, layers=12, width=64, skip=True):
        super().__init__()
        self.skip = skip
        self.layers = nn.ModuleList(Attention(width) for _ in range(layers))
        self.norm = nn.LayerNorm(width)

    def forward(self, x):
        for layer in self.layers:
            x = x + layer(x) if self.skip else layer(x)
        return self.norm(x)


def build(layers=12, skip=True, seed=0, shape=(2, 16)):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return AttentionOnly(layers, skip=skip).eval(), torch.randn(*shape, 64)
