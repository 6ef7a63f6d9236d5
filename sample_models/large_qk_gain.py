"""q and k norms whose gains are 80: they bound the logits by 80 * 80 * 16 / sqrt(16) = 25600.

normdiag must find
    one stack `blocks`: pre, layernorm, 3 layers, 1 norm and 1 add each, q and k norms, final norm
        `ln_f`
    a bound of 25600 on the logits of all 3 attentions: `attention-logit-bound`

`build_healthy` has gains of 1, and a bound of 4. It must not find that.
"""

import torch
import torch.nn.functional as F
from torch import nn

HEAD = 16


class Block(nn.Module):
    def __init__(self, width, gain):
        super().__init__()
        self.ln1 = nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.q_norm, self.k_norm = nn.RMSNorm(HEAD, 1e-6), nn.RMSNorm(HEAD, 1e-6)
        nn.init.constant_(self.q_norm.weight, gain)
        nn.init.constant_(self.k_norm.weight, gain)

    def forward(self, x):
        parts = self.qkv(self.ln1(x)).unflatten(-1, (3, -1, HEAD)).permute(2, 0, 3, 1, 4)
        q, k, v = parts.unbind(0)
        heads = F.scaled_dot_product_attention(self.q_norm(q), self.k_norm(k), v)
        return x + self.out(heads.transpose(1, 2).flatten(2))


class LargeQkGain(nn.Module):
    def __init__(self, gain, layers=3, width=64):
        super().__init__()
        self.blocks = nn.ModuleList(Block(width, gain) for _ in range(layers))
        self.ln_f = nn.LayerNorm(width)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.ln_f(x)


def build(gain=80.0):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return LargeQkGain(gain).eval(), torch.randn(2, 16, 64)


def build_healthy():
    return build(gain=1.0)
