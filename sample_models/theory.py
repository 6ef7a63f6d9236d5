"""The stack that theory speaks of (Xiong et al. 2020, section 3.3), with any placement of norms.

A layer is attention that looks everywhere alike, A(x) = W_v mean over tokens of x, and a network,
F(x) = W_2 relu(W_1 x); matrices are square with entries N(0, 1/H), norms without weights. So at
initialisation the stream's mean square can be worked out by hand: pre-norm adds 1/2 to 3/2 per
layer, a norm on the branch's output exactly 2. `wirings.py` says which placements there are.

normdiag must find
    one stack `layers`, 2 adds per layer, of the placement that was asked for
    in "pre", 12 layers: additive growth, a token cosine of about 0.77 at the end
    in "post": every sum with the mean square 3/2 in front of the norm behind F
"""

import torch
import torch.nn.functional as F
from torch import nn

from sample_models.wirings import PLACEMENTS


class Attention(nn.Module):
    def __init__(self, width, init):
        super().__init__()
        self.value = matrix(width, width, init)

    def forward(self, x):
        return self.value(x.mean(-2, keepdim=True)).expand_as(x)


class Network(nn.Module):
    def __init__(self, width, init):
        super().__init__()
        self.up, self.down = matrix(width, width), matrix(width, width, init)

    def forward(self, x):
        return self.down(F.relu(self.up(x)))


class Branch(nn.Module):
    def __init__(self, wiring, width, inner):
        super().__init__()
        self.read, self.write = norm(width, wiring.read), norm(width, wiring.write)
        self.times, self.inner = wiring.times, inner(width, wiring.init)
        if wiring.learned is not None:
            self.scale = nn.Parameter(torch.full((wiring.size or width,), wiring.learned))

    def forward(self, x):
        written = self.write(self.inner(self.times * self.read(x)))
        return self.scale * written if hasattr(self, "scale") else written


class Layer(nn.Module):
    def __init__(self, wiring, width):
        super().__init__()
        self.skip = wiring.skip
        self.attention = Branch(wiring, width, Attention)
        self.network = Branch(wiring, width, Network)
        self.stream = norm(width, wiring.stream)

    def forward(self, x):
        x = self.stream(self.skip * x + self.attention(x))
        return self.stream(self.skip * x + self.network(x))


class Theory(nn.Module):
    def __init__(self, placement="pre", width=64, layers=12, words=1000):
        super().__init__()
        wirings = [PLACEMENTS[placement](layers, layer) for layer in range(layers)]
        self.layers = nn.Sequential(*(Layer(wiring, width) for wiring in wirings))
        self.norm = norm(width, wirings[-1].is_open)
        self.head = matrix(width, words)

    def forward(self, x):
        return self.head(self.norm(self.layers(x)))


def norm(width, is_there):
    return nn.LayerNorm(width, elementwise_affine=False) if is_there else nn.Identity()


def matrix(width, rows, scale=1.0):
    linear = nn.Linear(width, rows, bias=False)
    nn.init.normal_(linear.weight, std=scale * width**-0.5)
    return linear


def build(placement="pre", width=64, layers=12, seed=0, shape=(2, 16)):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return Theory(placement, width, layers).eval(), torch.randn(*shape, width)
