"""An epsilon that half precision does not have: BERT's 1e-12 in a float16 model.

The smallest number of float16 is 6e-8; a norm that is computed in float16 adds 0, and a constant
row is 0 / 0. PyTorch's fused kernel computes in float32 and keeps the epsilon; a norm that is
written out in the model's format does not.

normdiag must find
    one stack `blocks`: pre, layernorm, 6 layers, 1 norm and 1 add each, final norm `ln_f`
    an epsilon of 1e-12 at all 7 norms of a float16 model, kept by the fused kernel:
        `epsilon-underflow` as info

`build_written` computes the same norms by a formula in float16: a warning. `build_healthy` has an
epsilon of 1e-5. It must find nothing.
"""

import torch
from torch import nn


class WrittenLayerNorm(nn.LayerNorm):
    def forward(self, x):
        centred = x - x.mean(-1, keepdim=True)
        variance = centred.pow(2).mean(-1, keepdim=True)
        return centred * torch.rsqrt(variance + self.eps) * self.weight + self.bias


class Block(nn.Module):
    def __init__(self, width, eps, norm):
        super().__init__()
        self.ln1 = norm(width, eps=eps)
        self.fc = nn.Linear(width, width)

    def forward(self, x):
        return x + self.fc(self.ln1(x))


class HalfPreNorm(nn.Module):
    def __init__(self, eps, norm, layers=6, width=64):
        super().__init__()
        self.blocks = nn.ModuleList(Block(width, eps, norm) for _ in range(layers))
        self.ln_f = norm(width, eps=eps)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.ln_f(x)


def build(eps=1e-12, norm=nn.LayerNorm):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return HalfPreNorm(eps, norm).eval().half(), torch.randn(2, 16, 64).half()


def build_written():
    return build(norm=WrittenLayerNorm)


def build_healthy():
    return build(eps=1e-5)
