"""Writes a Llama as a GGUF file, the way llama.cpp's converter does, with the gguf package."""

from __future__ import annotations

import json
from pathlib import Path

import gguf
import numpy as np
import torch
import transformers

NAMES = {
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
}
OUTER = {
    "model.embed_tokens.weight": "token_embd.weight",
    "model.norm.weight": "output_norm.weight",
    "lm_head.weight": "output.weight",
}


def gguf_name(name: str) -> str:
    """model.layers.3.mlp.up_proj.weight -> blk.3.ffn_up.weight"""
    if name in OUTER:
        return OUTER[name]
    _, _, layer, *module, kind = name.split(".")
    return f"blk.{layer}.{NAMES['.'.join(module)]}.{kind}"


def permute_heads(weight: torch.Tensor, heads: int) -> torch.Tensor:
    """llama.cpp rotates pairs of neighbours, transformers the two halves of a head."""
    rows = weight.reshape(heads, 2, weight.shape[0] // heads // 2, *weight.shape[1:])
    return rows.swapaxes(1, 2).reshape(weight.shape)


def write_llama(
    path: Path,
    model: transformers.LlamaForCausalLM,
    tokenizer: transformers.PreTrainedTokenizerFast,
    packed: gguf.GGMLQuantizationType | None = None,
    *,
    has_head: bool = True,
    pooling: gguf.PoolingType | None = None,
) -> None:
    """Matrices are stored as `packed` where that is given, everything else as float32.

    Without a head the embeddings are tied, or with `pooling` it is an embedding model.
    """
    config = model.config
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_dimension_count(config.head_dim)
    writer.add_vocab_size(config.vocab_size)
    write_vocabulary(writer, tokenizer)
    if pooling is not None:
        writer.add_pooling_type(pooling)
    for name, tensor in model.state_dict().items():
        if name == "lm_head.weight" and not has_head:
            continue
        if "q_proj" in name or "k_proj" in name:
            tensor = permute_heads(tensor, config.num_attention_heads)
        values = tensor.float().numpy()
        if packed is not None and values.ndim == 2:
            packed_values = gguf.quants.quantize(values, packed)
            writer.add_tensor(gguf_name(name), packed_values, raw_dtype=packed)
        else:
            writer.add_tensor(gguf_name(name), np.ascontiguousarray(values))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def write_vocabulary(
    writer: gguf.GGUFWriter, tokenizer: transformers.PreTrainedTokenizerFast
) -> None:
    """The tokens in the order of their ids, and the merges of the BPE."""
    parts = json.loads(tokenizer.backend_tokenizer.to_str())["model"]
    tokens = sorted(parts["vocab"], key=parts["vocab"].__getitem__)
    special = set(tokenizer.all_special_tokens)
    kinds = [gguf.TokenType.CONTROL if t in special else gguf.TokenType.NORMAL for t in tokens]
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(tokens)
    writer.add_token_types(kinds)
    writer.add_token_merges([" ".join(pair) for pair in parts["merges"]])
    writer.add_bos_token_id(tokenizer.bos_token_id)
    writer.add_eos_token_id(tokenizer.eos_token_id)
    writer.add_pad_token_id(tokenizer.pad_token_id)
