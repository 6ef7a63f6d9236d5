"""Faults of the values: formats that overflow, epsilons, gains, activations, scales."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from tests.cases.tiny import ids, make_model, norms, save, writes_upwards

Inputs = dict[str, Any]


@torch.no_grad()
def overflow_at_an_add(directory: Path) -> Inputs:
    """float16: every layer writes 12000 to channel 5; the sixth sum is 72000."""
    model = make_model(
        "GPT2", "LMHeadModel", n_embd=32, n_layer=7, n_head=2, vocab_size=64, n_positions=64
    )
    for layer in model.transformer.h:
        layer.mlp.c_proj.bias[5] = 12000
    save(model, directory, torch.float16)
    return ids()


@torch.no_grad()
def stream_promoted_to_float32(directory: Path) -> Inputs:
    """A float16 T5, which keeps `wo` in float32, writes more than float16 holds."""
    model = make_model(
        "T5", "ForConditionalGeneration", d_model=32, d_kv=16, d_ff=64, num_layers=4,
        num_decoder_layers=2, num_heads=2, vocab_size=64, hidden_size=32, decoder_start_token_id=0,
    )  # fmt: skip
    for block in model.encoder.block:
        block.layer[1].DenseReluDense.wo.weight.zero_()[9] = 1000.0
    save(model, directory, torch.float16)
    return ids() | {"decoder_input_ids": ids(4)["input_ids"]}


@torch.no_grad()
def nan_in_a_gain(directory: Path) -> Inputs:
    model = make_model("Qwen2")
    model.model.layers[2].post_attention_layernorm.weight[7] = float("nan")
    save(model, directory)
    return ids()


def zero_rows_without_epsilon(directory: Path, eps: float = 0.0) -> Inputs:
    """Three padded tokens whose embedding is zero, masked."""
    model = make_model("Mistral", rms_norm_eps=eps)
    with torch.no_grad():
        model.model.embed_tokens.weight[0] = 0
    save(model, directory)
    inputs = ids()
    inputs["input_ids"][0, :3] = 0
    return inputs | {"attention_mask": (inputs["input_ids"] != 0).long()}


def zero_rows_that_are_padding(directory: Path) -> Inputs:
    return zero_rows_without_epsilon(directory, eps=1e-6)


@torch.no_grad()
def epsilon_lost_in_float16(directory: Path) -> Inputs:
    """BERT's 1e-12, and two tokens that nothing marks as padding, with a constant embedding."""
    model = make_model("Bert", "Model", layer_norm_eps=1e-12)
    model.embeddings.position_embeddings.weight.fill_(0.25)
    model.embeddings.token_type_embeddings.weight.zero_()
    model.embeddings.word_embeddings.weight[0] = 0.5
    save(model, directory, torch.float16)
    inputs = ids()
    inputs["input_ids"][0, 6:] = 0
    return inputs


def one_missing_from_gains(directory: Path) -> Inputs:
    """The w of 1 + w in a class that takes it for the gain."""
    return _gains(make_model("Llama"), 0.0, directory)


def one_twice_in_gains(directory: Path) -> Inputs:
    """The gain itself in a class that adds 1."""
    return _gains(make_model("Gemma", head_dim=16), 1.0, directory)


@torch.no_grad()
def _gains(model: torch.nn.Module, centre: float, directory: Path) -> Inputs:
    draws = torch.Generator().manual_seed(5)
    for norm in norms(model):
        norm.weight.normal_(centre, 0.1, generator=draws)
    save(model, directory)
    return ids()


@torch.no_grad()
def outlier_among_gains(directory: Path) -> Inputs:
    model = make_model("Llama", hidden_size=32, num_hidden_layers=3, num_attention_heads=2,
                 intermediate_size=48, vocab_size=64)  # fmt: skip
    model.model.layers[1].input_layernorm.weight.fill_(0.05)[20] = 300.0
    save(model, directory)
    return ids()


@torch.no_grad()
def massive_activation_at_the_start(directory: Path, *first: int) -> Inputs:
    """Token 1 alone has channel 0, and layer 2 writes 3000 to channel 11 where that is."""
    model = make_model("Llama")
    embedding = model.model.embed_tokens.weight
    embedding[:, 0] = 0
    embedding[1] = 0
    embedding[1, 0] = 4.0
    for layer in model.model.layers:
        layer.self_attn.o_proj.weight[0] = 0
        layer.mlp.down_proj.weight[0] = 0
    mlp = model.model.layers[2].mlp
    for matrix in (mlp.gate_proj.weight, mlp.up_proj.weight):
        matrix[0] = 0
        matrix[0, 0] = 10.0
    mlp.down_proj.weight[:, 0] = 0
    mlp.down_proj.weight[11, 0] = 4.0
    save(model, directory)
    inputs = ids()
    if not first:
        inputs["input_ids"][0, 0] = 1
    return inputs


def no_start_token_no_activation(directory: Path) -> Inputs:
    """The same model, and nothing in the probe that brings it out."""
    return massive_activation_at_the_start(directory, 0)


@torch.no_grad()
def last_block_explodes(directory: Path) -> Inputs:
    """The final norm hides it from whoever reads the output."""
    model = make_model("Llama")
    last = model.model.layers[-1]
    writes_upwards(last.mlp, channel=6, size=10.0)
    last.post_attention_layernorm.weight.fill_(100.0)
    save(model, directory)
    return ids()


@torch.no_grad()
def outlier_position(directory: Path) -> Inputs:
    """GPT-2 with 11 tokens, 8 positions, no tokenizer, and one huge value at position 0."""
    model = make_model(
        "GPT2", "LMHeadModel", n_embd=32, n_layer=2, n_head=2, vocab_size=11, n_positions=8
    )
    draws = torch.Generator().manual_seed(2)
    for parameter in model.parameters():
        if parameter.ndim > 1:
            parameter.normal_(0, 0.02, generator=draws)
    model.transformer.wpe.weight[0, 4] = 60.0
    save(model, directory)
    return ids(vocabulary=11, low=0)


@torch.no_grad()
def embeddings_scaled_twice(directory: Path) -> Inputs:
    """bfloat16: sqrt(width) is in the embeddings already, and Gemma applies it again."""
    model = make_model("Gemma", head_dim=16)
    model.model.embed_tokens.weight.mul_(32**0.5)
    for name, parameter in model.named_parameters():
        if "proj" in name:
            parameter.mul_(0.25)
    save(model, directory, torch.bfloat16)
    return ids()


@torch.no_grad()
def dead_filters_before_a_group_norm(directory: Path) -> Inputs:
    model = make_model(
        "Wav2Vec2", "Model", hidden_size=32, num_hidden_layers=2, num_attention_heads=2,
        intermediate_size=48, conv_dim=[16, 16], conv_stride=[5, 2], conv_kernel=[10, 3],
        num_feat_extract_layers=2, num_conv_pos_embeddings=8, num_conv_pos_embedding_groups=2,
    )  # fmt: skip
    model.feature_extractor.conv_layers[0].conv.weight[[2, 3, 11]] = 0
    save(model, directory)
    return {"input_values": torch.randn(1, 400, generator=torch.Generator().manual_seed(3))}


@torch.no_grad()
def epsilon_dominates_the_first_pass(directory: Path) -> Inputs:
    """ALBERT's one layer runs four times, and the stream begins as nearly nothing."""
    model = make_model("Albert", "Model", hidden_size=32, embedding_size=16, num_hidden_layers=4,
                 num_attention_heads=2, intermediate_size=48, vocab_size=64)  # fmt: skip
    model.encoder.embedding_hidden_mapping_in.weight.mul_(1e-8)
    model.encoder.embedding_hidden_mapping_in.bias.zero_()
    for name, parameter in model.named_parameters():
        if "albert_layers" in name and name.endswith("bias"):
            parameter.zero_()
    save(model, directory)
    return ids()


@torch.no_grad()
def dead_gains(directory: Path) -> Inputs:
    """DBRX, whose class called NormAttentionNorm is half a layer and no norm."""
    model = make_model(
        "Dbrx", d_model=32, n_heads=2, n_layers=3, max_seq_len=64, vocab_size=64, hidden_size=32,
        attn_config={"kv_n_heads": 2, "clip_qkv": 8.0, "rope_theta": 1e4},
        ffn_config={"ffn_hidden_size": 32, "hidden_size": 32, "moe_num_experts": 2, "moe_top_k": 1},
    )  # fmt: skip
    model.transformer.blocks[1].norm_attn_norm.norm_2.weight[10:15] = 0
    save(model, directory)
    return ids()
