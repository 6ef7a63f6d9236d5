"""A branch that cancels the stream: block 6 of 12 computes x + (-x + small).

What six blocks have written is gone after one addition, and in half precision so are most of
the digits of what is left. The size of the branch alone looks harmless: it is as large as the
stream.

normdiag must find
    one stack `blocks`: pre, layernorm, 12 layers, 1 norm and 1 add each, final norm `ln_f`
    at `blocks.6/add#0`: update ratio 1, cosine -1, and a stream left that is a fifth of what
        came in or less: `cancelling-add`

`build_healthy` leaves that block as it was. It must find nothing.
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


class CancellingAdd(nn.Module):
    def __init__(self, layers=12, width=64, cancels=6):
        super().__init__()
        self.blocks = nn.ModuleList(Block(width) for _ in range(layers))
        self.ln_f = nn.LayerNorm(width)
        if cancels is not None:
            self.cancel(self.blocks[cancels], size=(1 + cancels / 3) ** 0.5)

    @torch.no_grad()
    def cancel(self, block, size):
        """fc = -size I: of the unit-variance output of ln1 it makes -x, for x of that size."""
        block.fc.weight.copy_(-size * torch.eye(len(block.fc.weight)))
        block.fc.bias.zero_()

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.ln_f(x)


def build(cancels=6):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return CancellingAdd(cancels=cancels).eval(), torch.randn(2, 16, 64)


def build_healthy():
    return build(cancels=None)
