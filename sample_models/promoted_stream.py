"""A float16 model whose stream becomes float32: the matrix of block 2 of 6 was kept in float32.

The sum of a float16 skip and a float32 branch is float32, and so is all behind it. The branch
writes 90000, which float32 holds and float16 does not.

normdiag must find
    one stack `blocks`: pre, layernorm, 6 layers, 1 norm and 1 add each, final norm `ln_f`
    the stream float16 up to `blocks.1/add#0` and float32 from `blocks.2/add#0` on, with values
        above 65504: `promoted-stream`

`build_healthy` is the same in float32 throughout. It must find nothing of this.
"""

import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.ln1 = nn.LayerNorm(width)
        self.fc = nn.Linear(width, width)

    def forward(self, x):
        normed = self.ln1(x.to(self.ln1.weight.dtype))
        return x + self.fc(normed.to(self.fc.weight.dtype))


class PromotedStream(nn.Module):
    def __init__(self, layers=6, width=64):
        super().__init__()
        self.blocks = nn.ModuleList(Block(width) for _ in range(layers))
        self.ln_f = nn.LayerNorm(width)
        nn.init.constant_(self.blocks[2].fc.bias, 90000.0)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.ln_f(x.to(self.ln_f.weight.dtype))


def build(dtype=torch.float16):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model, kept = PromotedStream().eval(), nn.Linear(64, 64)
        kept.load_state_dict(model.blocks[2].fc.state_dict())
        model.to(dtype)
        model.blocks[2].fc = kept.eval()
        return model, torch.randn(2, 16, 64).to(dtype)


def build_healthy():
    return build(torch.float32)
