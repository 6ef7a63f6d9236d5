"""An addition that overflows in float16: every block writes 12000 into channel 5 of the stream.

Each branch is finite, and so is the stream through five blocks; the sixth addition makes 72000
of 60000 and 12000, and float16 ends at 65504. A tool that watches modules finds the infinity in
the norm behind it, and blames that.

normdiag must find
    one stack `blocks`: pre, layernorm, 8 layers with 1 norm and 1 residual add each, final norm
        `ln_f`
    the first non-finite value at `blocks.5/add#0`, with both operands finite and an exact sum of
        72000: `non-finite-activation`

`build_healthy` is the same model in bfloat16, where nothing overflows. It must not find that.
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


class Overflowing(nn.Module):
    def __init__(self, layers=8, width=64):
        super().__init__()
        self.blocks = nn.ModuleList(Block(width) for _ in range(layers))
        self.ln_f = nn.LayerNorm(width)
        for block in self.blocks:
            nn.init.constant_(block.fc.bias[5], 12000.0)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.ln_f(x)


def build(dtype=torch.float16):
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(0)
        return Overflowing().to(dtype).eval(), torch.randn(2, 16, 64, dtype=dtype)


def build_healthy():
    return build(dtype=torch.bfloat16)
