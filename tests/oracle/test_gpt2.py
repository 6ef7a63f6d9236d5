"""GPT-2: pre-LayerNorm with biases, weights stored transposed, learned positions, a tied head."""

from __future__ import annotations

import pytest
from transformers import GPT2Config, GPT2LMHeadModel

from tests.oracle.batches import token_ids
from tests.oracle.case import ONE_STREAM, Add, Case, Norm, into, out_of
from tests.oracle.lively import enliven
from tests.oracle.verification import Verification

STACK = "transformer.h"
LAYERS = 4
EPS = 1e-2


@pytest.fixture(scope="module")
def case():
    config = GPT2Config(
        vocab_size=50,
        n_positions=20,
        n_embd=32,
        n_layer=LAYERS,
        n_head=4,
        layer_norm_epsilon=EPS,
    )
    kind = {"kind": "layernorm", "eps": EPS, "stack": STACK}
    norms = [
        Norm(module=f"{STACK}.{i}.{name}", role="branch-input", layer=i, **kind)
        for i in range(LAYERS)
        for name in ("ln_1", "ln_2")
    ]
    blocks = [f"{STACK}.{i}" for i in range(LAYERS)]
    return Case(
        model=enliven(GPT2LMHeadModel(config), seed=5),
        batches=[{"input_ids": token_ids(3, 12, 50, seed=6)}],
        norms=[*norms, Norm(module="transformer.ln_f", role="final", layer=None, **kind)],
        adds=[add for i in range(LAYERS) for add in _layer_adds(i)],
        stacks=[_stack()],
        head=into("lm_head"),
        taps=("lm_head", *blocks, *(f"{b}.{name}" for b in blocks for name in ("attn", "mlp"))),
    )


class TestGPT2(Verification):
    """Every number of the report."""


def _layer_adds(i: int) -> list[Add]:
    block = f"{STACK}.{i}"
    shared = {"module": block, "stack": STACK, "layer": i, "placement": "pre"}
    return [
        Add(
            k=0,
            depth=2 * i,
            skip=into(f"{block}.ln_1"),
            branch=out_of(f"{block}.attn"),
            out=into(f"{block}.ln_2"),
            input_norms=[f"{block}.ln_1"],
            **shared,
        ),
        Add(
            k=1,
            depth=2 * i + 1,
            skip=into(f"{block}.ln_2"),
            branch=out_of(f"{block}.mlp"),
            out=out_of(block),
            input_norms=[f"{block}.ln_2"],
            **shared,
        ),
    ]


def _stack() -> dict:
    return {
        "id": STACK,
        "placement": "pre",
        "norm_kind": "layernorm",
        "layers": LAYERS,
        "norms_per_layer": 2,
        "residual_adds_per_layer": 2,
        "qk_norm": False,
        "branch_scale": "none",
        "skip_scale": "none",
        "final_norm": "transformer.ln_f",
        "embedding_norm": None,
        "width": 32,
        "drawing": "x + F(ln(x))",
        "note": None,
        "read_by": "norm",
        "layer_modules": LAYERS,
        **ONE_STREAM,
    }
