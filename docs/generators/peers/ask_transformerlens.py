"""TransformerLens: an adapter per architecture gives the hook points their names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
import transformers
from transformer_lens.model_bridge import TransformerBridge

from docs.generators.peers.answer import ToolAnswer, count_sums, relative_error
from docs.generators.peers.models import Case

PACKAGE = "transformer-lens"
_SUMS = ("hook_resid_mid", "hook_resid_mid2", "hook_resid_post")
_WRITES = ("hook_attn_out", "hook_cross_attn_out", "hook_mlp_out")
_ANY = Path(__file__).parents[2] / "sample_models" / "tiny_llama"


def ask_tool(case: Case) -> ToolAnswer:
    """Every block's stream, by the names that the adapter gives."""
    model = case.build()
    truth = case.true_sums(model)
    # a tokenizer is wanted; it is not used, since token ids are run
    tokenizer = transformers.AutoTokenizer.from_pretrained(_ANY)
    bridge = TransformerBridge.boot_transformers(
        case.name, hf_model=model, tokenizer=tokenizer, device="cpu"
    )
    inputs = case.inputs()
    ids = inputs["input_ids"]
    decoder = {"decoder_input": ids} if "decoder_input_ids" in inputs else {}
    with torch.no_grad():
        _, cache = bridge.run_with_cache(ids, **decoder)
    blocks = sorted({key.partition(".hook_resid_pre")[0] for key in cache if "resid_pre" in key})
    sums = [cache[f"{b}.{name}"] for b in blocks for name in _SUMS if f"{b}.{name}" in cache]
    true_sums, extra = count_sums(truth, sums)
    norms = {key.split(".")[-2] for key in cache if key.endswith("hook_normalized")}
    second = [f"{block}.{name}" for block in blocks if block.endswith(".1") for name in _SUMS]
    return ToolAnswer(
        true_sums=true_sums,
        extra=extra,
        identity=max(_identity_error(cache, block) for block in blocks),
        norms=", ".join(sorted(norms)),
        names=", ".join(name for name in second if name in cache),
    )


def _identity_error(cache: Any, block: str) -> float:
    total = cache[f"{block}.hook_resid_pre"]
    for name in _WRITES:
        if f"{block}.{name}" in cache:
            total = total + cache[f"{block}.{name}"]
    return relative_error(total, cache[f"{block}.hook_resid_post"])
