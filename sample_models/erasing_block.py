"""A block that erases a channel: block 3 of 6 writes -x into channel 7, so that it ends as 0.

What earlier blocks wrote there is lost for good. Neither the size of the branch nor its angle to
the stream shows it: it is one of 64 channels.

normdiag must find
    one stack `blocks`: pre, layernorm, 6 layers, 1 add each, final norm `ln_f`, with an add of
        placement `none` at block 3 (its branch reads the bare stream)
    at `blocks.3/add#0` a Jacobian with a singular value of 0: `ill-conditioned-block`

`build_healthy` writes -x/2. Its block must not be named.
"""

import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.ln = nn.LayerNorm(width)
        self.fc = nn.Linear(width, width)

    def forward(self, x):
        return x + self.fc(self.ln(x))


class ErasingBlock(nn.Module):
    def __init__(self, share, layers=6, width=64):
        super().__init__()
        self.blocks = nn.ModuleList(Block(width) for _ in range(layers))
        self.ln_f = nn.LayerNorm(width)
        self.erase(self.blocks[3], share)

    @torch.no_grad()
    def erase(self, block, share):
        block.ln = nn.Identity()
        block.fc.weight.zero_()[7, 7] = -share
        block.fc.bias.zero_()

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.ln_f(x)


def build(share=1.0):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return ErasingBlock(share).eval(), torch.randn(2, 16, 64)


def build_healthy():
    return build(share=0.5)
