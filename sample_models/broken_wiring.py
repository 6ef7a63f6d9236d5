"""A pre-norm stack of attention and MLP, and wirings of it that run and are wrong.

`build`: 6 blocks x + attn(ln1(x)), then x + mlp(ln2(x)), of width 64, then `ln_f`.

normdiag must find
    one stack `blocks`: pre, layernorm, 6 layers, 2 norms and 2 adds each, final norm `ln_f`
    in `build`, nothing
    in `build_lost_residual`, attention of block 3 that is not added: `missing-residual`
    in `build_doubled`, x = attn(ln1(x)), then x + x, in each block: `missing-residual`
    in `build_no_residual`, no add at all, so no stack: `missing-residual`
    in `build_raw_keys`, keys and values of x and queries of ln1(x): `raw-branch-input`
    in `build_second_norm_unused`, ln1 in the place of ln2, which never runs: `unused-module`
"""

import torch
import torch.nn.functional as F
from torch import nn


class Block(nn.Module):
    def __init__(self, width=64):
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.q, self.kv = nn.Linear(width, width), nn.Linear(width, 2 * width)
        self.out, self.up = nn.Linear(width, width), nn.Linear(width, 2 * width)
        self.down = nn.Linear(2 * width, width)

    def attn(self, queries, others):
        k, v = self.kv(others).chunk(2, -1)
        return self.out(F.scaled_dot_product_attention(self.q(queries), k, v))

    def mlp(self, h):
        return self.down(F.gelu(self.up(h)))

    def forward(self, x, wiring=None):
        h = self.ln1(x)
        update = self.attn(h, x if wiring == "raw keys" else h)
        if wiring == "lost" or wiring == "none":
            x = update
        elif wiring == "doubled":
            x = update + update
        else:
            x = x + update
        update = self.mlp(self.ln1(x) if wiring == "one norm" else self.ln2(x))
        return update if wiring == "none" else x + update


class Wired(nn.Module):
    def __init__(self, wirings):
        super().__init__()
        self.wirings = wirings
        self.blocks = nn.ModuleList(Block() for _ in wirings)
        self.ln_f = nn.LayerNorm(64)

    def forward(self, x):
        for block, wiring in zip(self.blocks, self.wirings, strict=True):
            x = block(x, wiring)
        return self.ln_f(x)


def build(wirings=(None,) * 6):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return Wired(wirings).eval(), torch.randn(2, 16, 64)


def build_lost_residual():
    return build((None, None, None, "lost", None, None))


def build_doubled():
    return build(("doubled",) * 6)


def build_no_residual():
    return build(("none",) * 6)


def build_raw_keys():
    return build(("raw keys",) * 6)


def build_second_norm_unused():
    return build(("one norm",) * 6)
