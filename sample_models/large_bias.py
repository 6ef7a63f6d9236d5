"""Post-norm with biases as large as the stream: ln(x + fc(x)), 24 times.

Every layer adds a constant vector of the stream's own size and divides by sqrt(2) to make up for
it: what came in is one half of what goes out, in squared size, and a quarter after two layers.
The gradient shrinks by the same factor on its way back, and the tokens become alike on the way
there.

normdiag must find
    one stack `layers`: post, layernorm, 24 layers, 1 norm and 1 add each, no final norm
    a gradient that shrinks by 1.4 per layer on its way back: `vanishing-gradient`

`build_healthy` leaves the biases as torch draws them. Its gradient neither grows nor shrinks.
"""

import torch
from torch import nn


class Layer(nn.Module):
    def __init__(self, width, bias):
        super().__init__()
        self.fc = nn.Linear(width, width)
        self.ln = nn.LayerNorm(width)
        nn.init.normal_(self.fc.weight, std=0.1 * width**-0.5)
        nn.init.normal_(self.fc.bias, std=bias)

    def forward(self, x):
        return self.ln(x + self.fc(x))


class LargeBias(nn.Module):
    def __init__(self, bias, layers=24, width=64):
        super().__init__()
        self.layers = nn.ModuleList(Layer(width, bias) for _ in range(layers))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


def build(bias=1.0):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return LargeBias(bias).eval(), torch.randn(2, 16, 64)


def build_healthy():
    return build(bias=0.07)
