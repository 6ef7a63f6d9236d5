"""One tiny transformer whose norm and residual add are functions that it is given.

`Spelled(norm, eps)` calls `norm(x, gain, bias, eps)` twice in each of 3 layers and once after
them, from a module each or (`inlined`) in the layers' own code, and `add(x, f)` for x + f.

normdiag must find
    one stack `layers`: pre, 3 layers, 2 norms and 2 adds each, however both are spelled
    norms `layers.0.norm_1`, ..; inlined, `layers.0/norm#0` and `layers.0/norm#1`, ..
"""

import torch
import torch.nn.functional as F
from torch import nn


def plus(x, f):
    return x + f


class Norm(nn.Module):
    def __init__(self, norm, width, eps):
        super().__init__()
        self.norm, self.eps = norm, eps
        self.gain = nn.Parameter(1 + 0.2 * torch.randn(width))
        self.bias = nn.Parameter(0.1 * torch.randn(width))

    def forward(self, x):
        return self.norm(x, self.gain, self.bias, self.eps)


class Layer(nn.Module):
    def __init__(self, norm, add, width, heads, eps, inlined):
        super().__init__()
        self.add, self.heads, self.inlined = add, heads, inlined
        self.norm_1, self.norm_2 = Norm(norm, width, eps), Norm(norm, width, eps)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x):
        x = self.add(x, self.attention(self.normed(self.norm_1, x)))
        return self.add(x, self.down(F.gelu(self.up(self.normed(self.norm_2, x)))))

    def normed(self, norm, x):
        return norm.forward(x) if self.inlined else norm(x)

    def attention(self, x):
        batch, tokens, width = x.shape
        q, k, v = self.qkv(x).view(batch, tokens, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(y.transpose(1, 2).reshape(batch, tokens, width))


class Spelled(nn.Module):
    def __init__(self, norm, eps, add=plus, inlined=False, layers=3, width=16):
        super().__init__()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            self.embed = nn.Embedding(11, width)
            self.layers = nn.ModuleList(
                Layer(norm, add, width, 2, eps, inlined) for _ in range(layers)
            )
            self.norm = Norm(norm, width, eps)
            self.head = nn.Linear(width, 11)

    def forward(self, ids):
        x = self.embed(ids)
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))


def layer_norm(x, gain, bias, eps):
    return F.layer_norm(x, gain.shape, gain, bias, eps)


def build():
    return Spelled(layer_norm, 1e-5).eval(), torch.arange(32).view(2, 16) % 11
