"""One matrix drawn a thousand times too small, where a norm on the branch hides it.

x + ln(w2 relu(w1 x)): nothing but a norm reads w2, so its scale changes no output. It does change
the gradient, which goes as one over the scale: that of the small w2 is hundreds of times all the
others', and clipping by the global norm scales them all by what it needs.

normdiag must find
    one stack `layers`: branch-output, layernorm, 4 layers, 1 norm and 1 add each
    most of the squared gradient in `layers.2`: `clip-dominated`
    `layers.2.w2.weight` and both matrices of every layer free of scale

`build_healthy` draws all matrices alike. It must find nothing.
"""

import torch
from torch import nn


class Layer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.w1 = nn.Linear(width, width, bias=False)
        self.w2 = nn.Linear(width, width, bias=False)
        self.ln = nn.LayerNorm(width, eps=1e-12)

    def forward(self, x):
        return x + self.ln(self.w2(torch.relu(self.w1(x))))


class Model(nn.Module):
    def __init__(self, layers=4, width=64, vocabulary=100):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.layers = nn.ModuleList(Layer(width) for _ in range(layers))
        self.ln_f = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)

    def forward(self, ids):
        x = self.embed(ids)
        for layer in self.layers:
            x = layer(x)
        return self.head(self.ln_f(x))


def build(scale=1e-3):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = Model().eval()
        with torch.no_grad():
            model.layers[2].w2.weight.mul_(scale)
        return model, torch.randint(100, (2, 16))


def build_healthy():
    return build(scale=1.0)
