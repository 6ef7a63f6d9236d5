"""Embeddings drawn far too small: a variance of 1e-8 where the norm adds an epsilon of 1e-5.

The norm then divides by sqrt(epsilon) and not by the size of its input: it normalises nothing,
its output is a thirtieth of what the branch expects, and its Jacobian is that of a linear map.
From the second norm on, where the first branch has written, all is well.

normdiag must find
    one stack `blocks`: pre, layernorm, 6 layers, 1 norm and 1 add each, final norm `ln_f`
    at `blocks.0.ln1` an epsilon share of 0.999: `epsilon-dominates`, and at no other norm

`build_healthy` draws the embeddings at unit size. It must find nothing.
"""

import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.ln1 = nn.LayerNorm(width, eps=1e-5)
        self.fc = nn.Linear(width, width)

    def forward(self, x):
        return x + self.fc(self.ln1(x))


class Embedded(nn.Module):
    def __init__(self, std, layers=6, width=64, vocabulary=100):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.blocks = nn.ModuleList(Block(width) for _ in range(layers))
        self.ln_f = nn.LayerNorm(width, eps=1e-5)
        self.head = nn.Linear(width, vocabulary, bias=False)
        nn.init.normal_(self.embed.weight, std=std)

    def forward(self, ids):
        x = self.embed(ids)
        for block in self.blocks:
            x = block(x)
        return self.head(self.ln_f(x))


def build(std=1e-4):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return Embedded(std).eval(), torch.randint(100, (2, 16))


def build_healthy():
    return build(std=1.0)
