"""What block Jacobians cost, beside torch.func.jacrev of the same layers and a dense SVD.

    OMP_NUM_THREADS=1 python tests/benchmarks/bench_blocks.py

CPU seconds of this process per layer of a random Llama (width 576, as SmolLM2). Ours is the whole
of `measure_blocks`: its forward, both adds, the layer and its share of the stack, all singular
values, the distance from the identity. Beside it, of the layer module with plain attention, which
torch can batch, in float32, with svdvals in float64:

* sequence: jacrev of the layer over all tokens, of which one token's block is decomposed;
* token: jacrev of one token's output with respect to that token alone, the others held fixed;
* token, all: the same for both adds and for the layer, which is what ours gives.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import torch
from transformers import LlamaConfig, LlamaForCausalLM

from normdiag.inputs.batch import Batch
from normdiag.measure.blocks.blocks import measure_blocks

CHUNK = 128
"""Of jacrev: without it the whole basis is one batch, which is slower."""


def cpu_seconds(work: Callable[[], object], repeats: int) -> float:
    times = []
    for _ in range(repeats):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return min(times)


def model_of(width: int, layers: int) -> LlamaForCausalLM:
    torch.manual_seed(0)
    config = LlamaConfig(
        hidden_size=width,
        intermediate_size=width * 8 // 3,
        num_hidden_layers=layers,
        num_attention_heads=9,
        num_key_value_heads=3,
        vocab_size=1000,
        attn_implementation="eager",
    )
    return LlamaForCausalLM(config).eval().requires_grad_(False)


class Peer:
    """torch.func.jacrev of one layer."""

    def __init__(self, model: LlamaForCausalLM, ids: torch.Tensor) -> None:
        self.layer = model.model.layers[0]
        self.x = model.model.embed_tokens(ids)
        tokens = ids.shape[1]
        positions = torch.arange(tokens)[None]
        self.given = {
            "position_embeddings": model.model.rotary_emb(self.x, positions),
            "attention_mask": torch.full((tokens, tokens), float("-inf")).triu(1)[None, None],
        }

    def whole(self, x: torch.Tensor) -> torch.Tensor:
        found = self.layer(x, **self.given)
        return found[0] if isinstance(found, tuple) else found

    def attention(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.layer.self_attn(self.layer.input_layernorm(x), **self.given)[0]

    def mlp(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.layer.mlp(self.layer.post_attention_layernorm(x))

    def sequence(self) -> torch.Tensor:
        jacobian = torch.func.jacrev(self.whole, chunk_size=CHUNK)(self.x)
        return torch.linalg.svdvals(jacobian[0, -1, :, 0, -1].double())

    def token(self, function: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
        def own(row: torch.Tensor) -> torch.Tensor:
            return function(torch.cat([self.x[:, :-1], row[None, None]], 1))[0, -1]

        jacobian = torch.func.jacrev(own, chunk_size=CHUNK)(self.x[0, -1])
        return torch.linalg.svdvals(jacobian.double())


def compare(width: int, layers: int, tokens: int, repeats: int) -> None:
    model = model_of(width, layers)
    ids = torch.randint(0, 1000, (1, tokens))
    batch = Batch(inputs={"input_ids": ids})
    found = measure_blocks(model, batch, lambda: None, tokens)[0]["model.layers/layer#0"]
    peer = Peer(model, ids)
    truth = peer.token(peer.whole)
    ours = cpu_seconds(lambda: measure_blocks(model, batch, lambda: None, tokens), repeats) / layers
    functions = (peer.attention, peer.mlp, peer.whole)
    others = {
        "sequence": cpu_seconds(peer.sequence, 1),
        "token": cpu_seconds(lambda: peer.token(peer.whole), repeats),
        "token, all": cpu_seconds(lambda: [peer.token(f) for f in functions], repeats),
    }
    off = abs(found.sigma_max / float(truth[0]) - 1)
    print(f"{tokens} tokens: ours {ours:.2f} s a layer (sigma_max differs by {off:.0e})")
    for name, seconds in others.items():
        print(f"  jacrev, {name:10} {seconds:6.2f} s: {seconds / ours:.1f} times ours")


if __name__ == "__main__":
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--width", type=int, default=576)
    options.add_argument("--layers", type=int, default=4)
    options.add_argument("--repeats", type=int, default=3)
    options.add_argument("--tokens", type=int, nargs="+", default=[8, 16])
    chosen = options.parse_args()
    for tokens in chosen.tokens:
        compare(chosen.width, chosen.layers, tokens, chosen.repeats)
