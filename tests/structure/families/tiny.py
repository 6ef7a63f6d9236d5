"""A configuration shrunk until its model runs in milliseconds, its layout unchanged.

What is shrunk is told by the field's name, alike for all types: two layers, 32 features, four
heads, a vocabulary of 99. A family's own settings win over that.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from transformers import CONFIG_MAPPING, PreTrainedConfig
from transformers.integrations.heterogeneity.configuration_utils import (
    AmbiguousGlobalPerLayerAttributeError,
)

WIDTH = 32
VOCABULARY = 99

_SIZES: dict[Any, str] = {
    2: "num_hidden_layers n_layer n_layers num_layers encoder_layers decoder_layers layers depth "
    "num_decoder_layers num_encoder_layers num_key_value_heads num_experts_per_tok moe_k "
    "num_conv_pos_embedding_groups num_feat_extract_layers mamba_expand index_n_heads",
    1: "n_group topk_group n_shared_experts first_k_dense_replace mamba_n_groups",
    4: "num_attention_heads n_head n_heads num_heads encoder_attention_heads "
    "decoder_attention_heads attention_heads num_experts n_routed_experts num_local_experts "
    "moe_num_experts mamba_d_conv mamba_n_heads time_step_rank index_topk",
    8: "head_dim d_head d_kv attention_head_dim kv_channels patch_size qk_rope_head_dim "
    "qk_nope_head_dim v_head_dim sliding_window mamba_d_state mamba_chunk_size state_size "
    "num_conv_pos_embeddings index_head_dim",
    16: "q_lora_rank kv_lora_rank projection_dim embedding_size mamba_d_head",
    20: "entity_vocab_size",
    WIDTH: "hidden_size d_model n_embd dim embed_dim image_size moe_intermediate_size "
    "shared_expert_intermediate_size encoder_hidden_size decoder_hidden_size cross_hidden_size "
    "entity_emb_size out_hidden_size text_hidden_size projection_hidden_size adapter_out_dim",
    64: "intermediate_size ffn_dim encoder_ffn_dim decoder_ffn_dim d_ff n_inner hidden_dim mlp_dim "
    "dim_feedforward mamba_d_ssm",
    128: "max_position_embeddings n_positions max_source_positions max_target_positions n_ctx",
    VOCABULARY: "vocab_size",
    (16, 16): "conv_dim",
    (3, 3): "conv_kernel",
    (2, 2): "conv_stride",
}
_TINY = {name: size for size, names in _SIZES.items() for name in names.split()}
_MAY_BE_UNSET = {
    "head_dim",
    "num_key_value_heads",
    "n_inner",
    "sliding_window",
    "q_lora_rank",
    "encoder_ffn_dim",
}
_NOT_SETTINGS = {
    "per_layer_config",
    "transformers_version",
    "architectures",
    "id2label",
    "label2id",
}


def shrunk(config: PreTrainedConfig, own: dict[str, Any]) -> dict[str, Any]:
    """The arguments that build `config` tiny; `own` wins, nested into the configs it holds."""
    settings: dict[str, Any] = {}
    for name in _names(config):
        default = _default(config, name)
        given = own.get(name)
        inner = _inner(default, given)
        if inner is not None and (name not in own or isinstance(given, dict)):
            settings[name] = shrunk(inner, given or {})
            if inner.model_type:
                settings[name]["model_type"] = inner.model_type
        elif name in own:
            settings[name] = given
        else:
            settings |= _small(name, default)
    return {**own, **settings}


def _names(config: PreTrainedConfig) -> list[str]:
    fields = dataclasses.is_dataclass(config)
    names = [f.name for f in dataclasses.fields(config)] if fields else list(vars(config))
    return [n for n in names if n not in _NOT_SETTINGS]


def _default(config: PreTrainedConfig, name: str) -> Any:
    try:
        return getattr(config, name, None)
    except AmbiguousGlobalPerLayerAttributeError:
        return _TINY.get(name, 0)


def _inner(default: Any, given: Any) -> PreTrainedConfig | None:
    """The config that a field holds: of the type that `given` names, else the default one."""
    kind = given.get("model_type") if isinstance(given, dict) else None
    if kind in CONFIG_MAPPING and kind != getattr(default, "model_type", None):
        return CONFIG_MAPPING[kind]()
    return default if isinstance(default, PreTrainedConfig) else None


def _small(name: str, default: Any) -> dict[str, Any]:
    """The field made small, or nothing where it stays as it is."""
    if name in _TINY:
        size = _TINY[name]
        is_unset = default is None and name in _MAY_BE_UNSET
        is_list = isinstance(default, list | tuple)
        if is_unset or isinstance(default, bool) or is_list != isinstance(size, tuple):
            return {}
        return {name: size}
    if name.endswith(("_token_id", "_token_index")):
        if isinstance(default, int) and default >= VOCABULARY:
            return {name: VOCABULARY - 1 - sum(map(ord, name)) % 20}
        if isinstance(default, list) and any(i >= VOCABULARY for i in default):
            return {name: 2}
    if isinstance(default, float) and "drop" in name:
        return {name: 0.0}
    return {}
