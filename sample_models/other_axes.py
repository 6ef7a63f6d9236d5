"""A pre-norm stack, and the same one with norms that are taken over other elements than a token's.

`build`: 12 blocks x + fc(ln(x)) of width 64, then `ln_f`.

normdiag must find
    one stack `blocks`: pre, layernorm, 12 layers, 1 norm and 1 add each, final norm `ln_f`
    in `build`, nothing
    in `build_batch`, statistics over batch and tokens in all blocks: `batch-coupled-norm`
    in `build_narrow`, norms over 4 features at a time in all blocks: `narrow-norm`
    in `build_tokens`, the norm of block 5 taken over the tokens: `unexpected-axis`
"""

import torch
from torch import nn


class Batch(nn.Module):
    """BatchNorm over batch and tokens, by the statistics of the batch itself."""

    def __init__(self, width):
        super().__init__()
        self.bn = nn.BatchNorm1d(width, track_running_stats=False)

    def forward(self, x):
        return self.bn(x.transpose(1, 2)).transpose(1, 2)


class Narrow(nn.LayerNorm):
    """LayerNorm over 4 features at a time."""

    def __init__(self, width):
        super().__init__(4)

    def forward(self, x):
        return super().forward(x.unflatten(-1, (-1, 4))).flatten(-2)


class OverTokens(nn.Module):
    """LayerNorm over axis 1, which is not where the features are."""

    def forward(self, x):
        variance, mean = torch.var_mean(x, 1, correction=0, keepdim=True)
        return (x - mean) * torch.rsqrt(variance + 1e-5)


class Block(nn.Module):
    def __init__(self, width, norm):
        super().__init__()
        self.ln = norm(width)
        self.fc = nn.Linear(width, width)

    def forward(self, x):
        return x + self.fc(self.ln(x))


class OtherAxes(nn.Module):
    def __init__(self, norm, layers=12, width=64):
        super().__init__()
        self.blocks = nn.ModuleList(Block(width, norm) for _ in range(layers))
        self.ln_f = nn.LayerNorm(width)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.ln_f(x)


def build(norm=nn.LayerNorm):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return OtherAxes(norm).eval(), torch.randn(2, 16, 64)


def build_batch():
    return build(Batch)


def build_narrow():
    return build(Narrow)


def build_tokens():
    model, inputs = build()
    model.blocks[5].ln = OverTokens()
    return model.eval(), inputs
