"""RXNMapper's ALBERT: one shared layer that runs 12 times, so each call is a site of its own."""

from __future__ import annotations

import pytest
import torch
from transformers import AlbertForMaskedLM

from tests.oracle.batches import corner, mask, token_ids
from tests.oracle.case import ONE_STREAM, Add, Case, Norm, into, out_of
from tests.oracle.verification import Verification

RUNS = 12
EPS = 1e-12
STACK = "albert.encoder.albert_layer_groups.0.albert_layers"
LAYER = f"{STACK}.0"
ATTENTION = f"{LAYER}.attention.LayerNorm"
FEED_FORWARD = f"{LAYER}.full_layer_layer_norm"
HEAD = "predictions"


@pytest.fixture(scope="module")
def case(albert_directory):
    keep = mask([20, 11, 16], "right")
    batch = {"input_ids": token_ids(*keep.shape, 591, seed=13), "attention_mask": keep}
    return Case(
        model=AlbertForMaskedLM.from_pretrained(albert_directory).eval(),
        target=str(albert_directory),
        checkpoint=torch.load(
            albert_directory / "pytorch_model.bin", map_location="cpu", weights_only=True
        ),
        batches=[batch],
        few=[corner(batch, 2, 4)],
        norms=_norms(),
        adds=[add for run in range(RUNS) for add in _run_adds(run)],
        stacks=[_stack()],
        head=into(HEAD),
        taps=(HEAD, LAYER, f"{LAYER}.attention", f"{LAYER}.attention.dense", f"{LAYER}.ffn_output"),
        unattached=[f"{HEAD}.LayerNorm"],
    )


@pytest.mark.real
class TestAlbert(Verification):
    """Every number of the report."""

    def test_headline(self, report):
        (stack,) = report["architecture"]["stacks"]
        headline = (stack["layers"], stack["placement"], stack["norm_kind"])
        assert headline == (12, "post", "layernorm")
        calls = [norm["calls"] for norm in report["architecture"]["norms"]]
        assert sorted(calls) == [1, 1] + [12] * 24


def _norms() -> list[Norm]:
    """Of the embeddings; after attention and after the feed-forward, 12 times over; in the head."""
    kind = {"kind": "layernorm", "eps": EPS}
    norms = [
        Norm(module=m, role="stream", stack=STACK, layer=run, call=run, calls=RUNS, **kind)
        for run in range(RUNS)
        for m in (ATTENTION, FEED_FORWARD)
    ]
    embedding = Norm(
        module="albert.embeddings.LayerNorm", role="embedding", stack=STACK, layer=None, **kind
    )
    head = Norm(module=f"{HEAD}.LayerNorm", role="unattached", stack=None, layer=None, **kind)
    return [embedding, *norms, head]


def _call(module: str, run: int) -> str:
    return f"{module}@{run}" if run else module


def _run_adds(run: int) -> list[Add]:
    shared = {"k": run, "stack": STACK, "layer": run, "placement": "post"}
    return [
        Add(
            module=f"{LAYER}.attention",
            depth=2 * run,
            skip=into(f"{LAYER}.attention", run),
            branch=out_of(f"{LAYER}.attention.dense", run),
            out=into(ATTENTION, run),
            stream_norm=_call(ATTENTION, run),
            skip_norm=_call(FEED_FORWARD, run - 1) if run else None,
            **shared,
        ),
        Add(
            module=LAYER,
            depth=2 * run + 1,
            skip=out_of(ATTENTION, run),
            branch=out_of(f"{LAYER}.ffn_output", run),
            out=into(FEED_FORWARD, run),
            stream_norm=_call(FEED_FORWARD, run),
            skip_norm=_call(ATTENTION, run),
            **shared,
        ),
    ]


def _stack() -> dict:
    return {
        "id": STACK,
        "placement": "post",
        "norm_kind": "layernorm",
        "layers": RUNS,
        "norms_per_layer": 2,
        "residual_adds_per_layer": 2,
        "qk_norm": False,
        "branch_scale": "none",
        "skip_scale": "none",
        "final_norm": None,
        "embedding_norm": "albert.embeddings.LayerNorm",
        "width": 256,
        "drawing": "ln(x + F(x))",
        "note": None,
        "read_by": "head",
        "layer_modules": 1,
        **ONE_STREAM,
    }
