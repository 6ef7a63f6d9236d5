"""Two streams that are added together: six blocks read the input, six its reverse, and the ends
are summed.

Neither side has read the other's stream, so the sum is no residual add: whether the second side
is a branch of the first or a stream of its own is not in the data flow.

normdiag must find
    two stacks, `left` and `right`: pre, layernorm, 6 layers with 1 norm and 1 residual add each
    one addition of the stream's width that is not understood: `incomplete-trace`

`build_healthy` returns the two ends side by side instead. It must not find that.
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


class TwoSided(nn.Module):
    def __init__(self, summed, layers=6, width=64):
        super().__init__()
        self.summed = summed
        self.left = nn.ModuleList(Block(width) for _ in range(layers))
        self.right = nn.ModuleList(Block(width) for _ in range(layers))
        self.ln_f = nn.LayerNorm(width if summed else 2 * width)

    def forward(self, x):
        left, right = x, x.flip(1)
        for block in self.left:
            left = block(left)
        for block in self.right:
            right = block(right)
        return self.ln_f(left + right if self.summed else torch.cat([left, right], dim=-1))


def build(summed=True):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return TwoSided(summed).eval(), torch.randn(2, 16, 64)


def build_healthy():
    return build(summed=False)
