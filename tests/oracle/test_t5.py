"""T5: two pre-RMSNorm stacks, cross attention, tokens counted by each stack's own mask."""

from __future__ import annotations

import pytest
from transformers import T5Config, T5ForConditionalGeneration

from tests.oracle.batches import mask, token_ids
from tests.oracle.case import ONE_STREAM, Add, Case, Norm, into, out_of
from tests.oracle.lively import enliven
from tests.oracle.verification import Verification

EPS = 1e-3
BRANCHES = {
    "encoder": ("SelfAttention", "DenseReluDense"),
    "decoder": ("SelfAttention", "EncDecAttention", "DenseReluDense"),
}
LAYERS = {"encoder": 3, "decoder": 2}
MASK = {"encoder": "attention_mask", "decoder": "decoder_attention_mask"}


@pytest.fixture(scope="module")
def case():
    config = T5Config(
        vocab_size=50,
        d_model=24,
        d_kv=8,
        d_ff=40,
        num_layers=LAYERS["encoder"],
        num_decoder_layers=LAYERS["decoder"],
        num_heads=3,
        layer_norm_epsilon=EPS,
    )
    sublayers = [s for side in LAYERS for s in _sublayers(side)]
    return Case(
        model=enliven(T5ForConditionalGeneration(config), seed=7),
        batches=[_batch()],
        norms=[norm for side in LAYERS for norm in _norms(side)],
        adds=[add for side in LAYERS for add in _side_adds(side)],
        stacks=[_stack(side) for side in LAYERS],
        head=into("lm_head"),
        head_mask=MASK["decoder"],
        taps=("lm_head", *sublayers, *(_branch(s) for s in sublayers)),
    )


class TestT5(Verification):
    """Every number of the report."""


def _batch() -> dict:
    keep, decoder_keep = mask([8, 5, 2], "right"), mask([3, 6, 4], "right")
    return {
        "input_ids": token_ids(*keep.shape, 50, seed=8),
        "attention_mask": keep,
        "decoder_input_ids": token_ids(*decoder_keep.shape, 50, seed=9),
        "decoder_attention_mask": decoder_keep,
    }


def _sublayers(side: str) -> list[str]:
    count = len(BRANCHES[side])
    return [f"{side}.block.{i}.layer.{j}" for i in range(LAYERS[side]) for j in range(count)]


def _branch(sublayer: str) -> str:
    side, *_, j = sublayer.split(".")
    return f"{sublayer}.{BRANCHES[side][int(j)]}"


def _norms(side: str) -> list[Norm]:
    count, sublayers = len(BRANCHES[side]), _sublayers(side)
    kind = {"kind": "rmsnorm", "eps": EPS, "stack": f"{side}.block", "mask": MASK[side]}
    norms = [
        Norm(module=f"{sublayer}.layer_norm", role="branch-input", layer=n // count, **kind)
        for n, sublayer in enumerate(sublayers)
    ]
    return [*norms, Norm(module=f"{side}.final_layer_norm", role="final", layer=None, **kind)]


def _side_adds(side: str) -> list[Add]:
    return [
        Add(
            module=sublayer,
            skip=into(f"{sublayer}.layer_norm"),
            branch=out_of(_branch(sublayer)),
            out=out_of(sublayer),
            stack=f"{side}.block",
            layer=depth // len(BRANCHES[side]),
            depth=depth,
            placement="pre",
            input_norms=[f"{sublayer}.layer_norm"],
            mask=MASK[side],
        )
        for depth, sublayer in enumerate(_sublayers(side))
    ]


def _stack(side: str) -> dict:
    return {
        "id": f"{side}.block",
        "placement": "pre",
        "norm_kind": "rmsnorm",
        "layers": LAYERS[side],
        "norms_per_layer": len(BRANCHES[side]),
        "residual_adds_per_layer": len(BRANCHES[side]),
        "qk_norm": False,
        "branch_scale": "none",
        "skip_scale": "none",
        "final_norm": f"{side}.final_layer_norm",
        "embedding_norm": None,
        "width": 24,
        "drawing": "x + F(rms(x))",
        "note": None,
        "read_by": "norm",
        "layer_modules": LAYERS[side],
        **ONE_STREAM,
    }
