"""An offset that all features share: every value of the embedding is 8 too high.

The first LayerNorm takes it away again, and with it 98 % of what it is given. Each block reads the
stream through such a norm, so that nobody ever sees the offset that the stream carries along.

normdiag must find
    one stack `blocks`: pre, layernorm, 6 layers, 1 norm and 1 add each, final norm `ln_f`
    a mean energy above 0.9 at the norms of all blocks: `mean-dominated-input`

`build_healthy` has no offset. It must find nothing.
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


class CommonOffset(nn.Module):
    def __init__(self, layers=6, width=64, vocabulary=100, offset=8.0):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.blocks = nn.ModuleList(Block(width) for _ in range(layers))
        self.ln_f = nn.LayerNorm(width)
        with torch.no_grad():
            self.embed.weight.add_(offset)

    def forward(self, ids):
        x = self.embed(ids)
        for block in self.blocks:
            x = block(x)
        return self.ln_f(x)


def build(offset=8.0):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return CommonOffset(offset=offset).eval(), torch.randint(100, (2, 16))


def build_healthy():
    return build(offset=0.0)
