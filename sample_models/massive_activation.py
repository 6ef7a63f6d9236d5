"""A massive activation: block 2 of 12 writes 3000 into one channel of the first token.

As in Llama 2, one hidden unit answers to the token that starts every sequence and to no other.
From there on the stream carries the value along; every norm divides that token by it, so that
the token's other channels are pressed to nearly nothing.

normdiag must find
    one stack `blocks`: pre, rmsnorm, 12 layers, 1 norm and 1 add each, final norm `norm_f`
    from `blocks.2/add#0` on, max |y| near 3000 at position 0 in channel 7, against a median
        below 2: `massive-activation`
    growth, position 0 left out, of about 1.25 in all; with it, it would be 20

`build_healthy` leaves that hidden unit as it was. It must find nothing.
"""

import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.RMSNorm(width, eps=1e-6)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x):
        return x + self.down(torch.relu(self.up(self.norm(x))))


class MassiveActivation(nn.Module):
    def __init__(self, layers=12, width=64, vocabulary=100):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.blocks = nn.ModuleList(Block(width) for _ in range(layers))
        self.norm_f = nn.RMSNorm(width, eps=1e-6)
        self.head = nn.Linear(width, vocabulary, bias=False)

    def forward(self, ids):
        x = self.embed(ids)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm_f(x))


@torch.no_grad()
def write(model, token, layer=2, channel=7, size=3000.0):
    """Let one hidden unit of `layer` write `size` into `channel` where it meets `token`."""
    x = model.embed(torch.tensor(token))
    for block in model.blocks[:layer]:
        x = block(x)
    block = model.blocks[layer]
    x = block.norm(x)
    block.up.weight[0] = x / x.norm()
    block.up.bias[0] = 1 - x.norm()  # 1 for this token; below 0 for all that point elsewhere
    block.down.weight[channel, 0] = size


def build(massive=True):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = MassiveActivation().eval()
        ids = torch.randint(1, 100, (2, 16))
        ids[:, 0] = 0
        if massive:
            write(model, token=0)
        return model, ids


def build_healthy():
    return build(massive=False)
