"""BART: two post-LayerNorm stacks with embedding norms and cross attention."""

from __future__ import annotations

import pytest
from transformers import BartConfig, BartForConditionalGeneration

from tests.oracle.batches import mask, token_ids
from tests.oracle.case import ONE_STREAM, Add, Case, Norm, into, out_of
from tests.oracle.lively import enliven
from tests.oracle.verification import Verification

EPS = 1e-5
SUBLAYERS = {
    "encoder": (("self_attn", "self_attn_layer_norm"), ("fc2", "final_layer_norm")),
    "decoder": (
        ("self_attn", "self_attn_layer_norm"),
        ("encoder_attn", "encoder_attn_layer_norm"),
        ("fc2", "final_layer_norm"),
    ),
}
LAYERS = {"encoder": 2, "decoder": 3}
MASK = {"encoder": "attention_mask", "decoder": "decoder_attention_mask"}


@pytest.fixture(scope="module")
def case():
    config = BartConfig(
        vocab_size=50,
        d_model=24,
        encoder_layers=LAYERS["encoder"],
        decoder_layers=LAYERS["decoder"],
        encoder_attention_heads=3,
        decoder_attention_heads=3,
        encoder_ffn_dim=40,
        decoder_ffn_dim=40,
        max_position_embeddings=16,
    )
    return Case(
        model=enliven(BartForConditionalGeneration(config), seed=10),
        batches=[_batch()],
        norms=[norm for side in LAYERS for norm in _norms(side)],
        adds=[add for side in LAYERS for add in _side_adds(side)],
        stacks=[_stack(side) for side in LAYERS],
        head=into("lm_head"),
        head_mask=MASK["decoder"],
        taps=("lm_head", *(branch for side in LAYERS for branch, _ in _places(side))),
        stream_findings=["token-collapse"],  # random cross attention gives all tokens the same
    )


class TestBart(Verification):
    """Every number of the report."""


def _batch() -> dict:
    keep, decoder_keep = mask([8, 5, 2], "right"), mask([3, 6, 4], "right")
    return {
        "input_ids": token_ids(*keep.shape, 50, seed=11),
        "attention_mask": keep,
        "decoder_input_ids": token_ids(*decoder_keep.shape, 50, seed=12),
        "decoder_attention_mask": decoder_keep,
    }


def _places(side: str) -> list[tuple[str, str]]:
    """Branch and norm of every sublayer, in the order of the forward."""
    return [
        (f"model.{side}.layers.{i}.{branch}", f"model.{side}.layers.{i}.{norm}")
        for i in range(LAYERS[side])
        for branch, norm in SUBLAYERS[side]
    ]


def _norms(side: str) -> list[Norm]:
    count, stack = len(SUBLAYERS[side]), f"model.{side}.layers"
    kind = {"kind": "layernorm", "eps": EPS, "stack": stack, "mask": MASK[side]}
    return [
        Norm(module=f"model.{side}.layernorm_embedding", role="embedding", layer=None, **kind),
        *(
            Norm(module=norm, role="stream", layer=n // count, **kind)
            for n, (_, norm) in enumerate(_places(side))
        ),
    ]


def _side_adds(side: str) -> list[Add]:
    count, places = len(SUBLAYERS[side]), _places(side)
    adds = []
    before = f"model.{side}.layernorm_embedding"
    for depth, (branch, norm) in enumerate(places):
        adds.append(
            Add(
                module=branch.rpartition(".")[0],
                k=depth % count,
                skip=out_of(before),
                branch=out_of(branch),
                out=into(norm),
                stack=f"model.{side}.layers",
                layer=depth // count,
                depth=depth,
                placement="post",
                stream_norm=norm,
                skip_norm=before,
                mask=MASK[side],
            )
        )
        before = norm
    return adds


def _stack(side: str) -> dict:
    return {
        "id": f"model.{side}.layers",
        "placement": "post",
        "norm_kind": "layernorm",
        "layers": LAYERS[side],
        "norms_per_layer": len(SUBLAYERS[side]),
        "residual_adds_per_layer": len(SUBLAYERS[side]),
        "qk_norm": False,
        "branch_scale": "none",
        "skip_scale": "none",
        "final_norm": None,
        "embedding_norm": f"model.{side}.layernorm_embedding",
        "width": 24,
        "drawing": "ln(x + F(x))",
        "note": None,
        "read_by": "stack" if side == "encoder" else "head",
        "layer_modules": LAYERS[side],
        **ONE_STREAM,
    }
