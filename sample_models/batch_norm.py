"""BatchNorm where a transformer has LayerNorm: x + mlp(bn(x)), 12 times, as for time series.

In eval mode BatchNorm is a fixed scale and shift per channel, made from running statistics: no
token influences another, and none is brought to unit size.

normdiag must find
    one stack `blocks`: pre, batchnorm, 12 layers, 1 norm and 1 add each, final norm `bn_f`
    as the variance that a norm sees its `running_var`, whatever the input is
"""

import torch
from torch import nn


class ChannelNorm(nn.BatchNorm1d):
    """BatchNorm over batch and time of (batch, time, channels)."""

    def forward(self, x):
        return super().forward(x.transpose(1, 2)).transpose(1, 2)


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.bn = ChannelNorm(width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x):
        return x + self.mlp(self.bn(x))


class BatchNormed(nn.Module):
    def __init__(self, layers=12, width=64):
        super().__init__()
        self.blocks = nn.ModuleList(Block(width) for _ in range(layers))
        self.bn_f = ChannelNorm(width)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.bn_f(x)


def build():
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(0)
        model = BatchNormed().train()
        for _ in range(50):  # settle the running statistics
            model(torch.randn(8, 16, 64))
        return model.eval(), torch.randn(2, 16, 64)
