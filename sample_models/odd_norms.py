"""A pre-norm stack, and the same one with norms that stand, or are made, unlike the others.

`build`: 12 blocks x + fc(ln(x)) of width 64, then `ln_f`.

normdiag must find
    one stack `blocks`: pre, layernorm, 12 layers, 1 norm and 1 add each, final norm `ln_f`
    in `build`, nothing
    in `build_epsilon`, 1e-12 at `blocks.5.ln` where the others have 1e-5: `epsilon-mismatch`
    in `build_misplaced`, no norm in block 5, so a hybrid stack: `mixed-placement`
    in `build_double_final`, `ln_f` run on its own output: `double-final-norm`
    in `build_amplifying`, inputs of size 1e-5 before an epsilon of 1e-12: `amplifying-norm`
"""

import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, width, eps):
        super().__init__()
        self.ln = nn.LayerNorm(width, eps=eps)
        self.fc = nn.Linear(width, width)

    def forward(self, x):
        return x + self.fc(self.ln(x))


class OddNorms(nn.Module):
    def __init__(self, eps, times, layers=12, width=64):
        super().__init__()
        self.blocks = nn.ModuleList(Block(width, eps) for _ in range(layers))
        self.ln_f = nn.LayerNorm(width)
        self.times = times

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        for _ in range(self.times):
            x = self.ln_f(x)
        return x


def build(eps=1e-5, times=1, scale=1.0):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return OddNorms(eps, times).eval(), scale * torch.randn(2, 16, 64)


def build_epsilon():
    model, inputs = build()
    model.blocks[5].ln.eps = 1e-12
    return model, inputs


def build_misplaced():
    model, inputs = build()
    model.blocks[5].ln = nn.Identity()
    return model.eval(), inputs


def build_double_final():
    return build(times=2)


def build_amplifying():
    return build(eps=1e-12, scale=1e-5)
