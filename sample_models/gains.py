"""A stack whose gains are sound, and the same one with gains that were damaged.

`build`: 12 blocks x + fc(rms(x)), gains drawn around 1 with deviation 0.1.

normdiag must find
    one stack `blocks`: pre, rmsnorm, 12 layers, 1 norm and 1 add each, final norm `norm_f`
    in `build`, nothing
    in `build_dead`, 8 of 64 gains dead at `blocks.3.norm`: `dead-gain`
    in `build_outlier`, a gain of 300 in channel 20 of `blocks.3.norm`, 6000 times the others there:
        `gain-outlier`, `ill-conditioned-norm`
    in `build_low`, the gain of `blocks.3.norm` 0.003 times as large: `gain-level`
    in `build_missing_one`, gains of all 13 norms drawn around 0, as if `1 + w` had lost its 1:
        `gain-offset`
    in `build_doubled_one`, gains of all 13 norms around 2, since norms that compute 1 + w hold
        the gain itself: `gain-offset`
"""

import torch
from torch import nn


class Norm(nn.Module):
    """RMSNorm that multiplies by `plus` + weight."""

    def __init__(self, width, plus):
        super().__init__()
        self.plus = plus
        self.weight = nn.Parameter(torch.ones(width) + 0.1 * torch.randn(width))

    def forward(self, x):
        normed = x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6)
        return normed * (self.plus + self.weight if self.plus else self.weight)


class Block(nn.Module):
    def __init__(self, width, plus):
        super().__init__()
        self.norm = Norm(width, plus)
        self.fc = nn.Linear(width, width)

    def forward(self, x):
        return x + self.fc(self.norm(x))


class Gains(nn.Module):
    def __init__(self, plus=0, layers=12, width=64):
        super().__init__()
        self.blocks = nn.ModuleList(Block(width, plus) for _ in range(layers))
        self.norm_f = Norm(width, plus)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.norm_f(x)


@torch.no_grad()
def build(damage=lambda model: None, plus=0):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model, inputs = Gains(plus).eval(), torch.randn(2, 16, 64)
        damage(model)
        return model, inputs


def build_dead():
    return build(lambda model: model.blocks[3].norm.weight[:8].zero_())


def build_outlier():
    def damage(model):
        model.blocks[3].norm.weight.fill_(0.05)[20] = 300.0

    return build(damage)


def build_low():
    return build(lambda model: model.blocks[3].norm.weight.mul_(0.003))


def build_missing_one():
    def damage(model):
        for norm in (m for m in model.modules() if isinstance(m, Norm)):
            norm.weight.sub_(1)

    return build(damage)


def build_doubled_one():
    return build(plus=1)
