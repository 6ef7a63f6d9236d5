"""Ten tiny models, and where each writes to its residual stream, read in transformers' source."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import torch
import transformers
from torch import nn

LAYERS = 3
_SIZES = {
    "vocab_size": 99,
    "hidden_size": 32,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "max_position_embeddings": 64,
}
_GROUPED = _SIZES | {"num_key_value_heads": 2}
_EXPERTS = {
    "num_key_value_heads": 4,
    "moe_intermediate_size": 32,
    "n_routed_experts": 4,
    "n_shared_experts": 1,
    "num_experts_per_tok": 2,
    "n_group": 1,
    "topk_group": 1,
    "first_k_dense_replace": 1,
}
_LATENTS = {
    "q_lora_rank": 16,
    "kv_lora_rank": 16,
    "qk_rope_head_dim": 8,
    "qk_nope_head_dim": 8,
    "v_head_dim": 8,
}


@dataclass(frozen=True)
class Case:
    """A model type.

    `sums` says where the sums of a layer can be read off: the path of a module below the layer,
    and whether the sum is what goes in or what comes out.
    """

    name: str
    placement: str
    config: dict[str, Any]
    head: str
    sums: dict[str, tuple[tuple[str, str], ...]]

    def build(self) -> nn.Module:
        """Seeded weights with some noise on all of them: no norm is trivial, no branch silent."""
        torch.manual_seed(0)
        config = transformers.CONFIG_MAPPING[self.name](**self.config)
        model = getattr(transformers, self.head)(config).eval()
        model.config.architectures = [self.head]
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(0.1 * torch.randn_like(parameter))
        return model

    def inputs(self) -> dict[str, torch.Tensor]:
        """Two sequences without padding."""
        ids = torch.randint(4, 99, (2, 9), generator=torch.Generator().manual_seed(1))
        return {"input_ids": ids} | ({"decoder_input_ids": ids} if self.name == "t5" else {})

    def layers(self, model: nn.Module) -> Iterator[tuple[str, tuple[tuple[str, str], ...]]]:
        """The path of every repeated layer, in order, with where its sums are."""
        for stack, sums in self.sums.items():
            for index in range(len(model.get_submodule(stack))):
                yield f"{stack}.{index}", sums

    def true_sums(self, model: nn.Module) -> dict[str, list[torch.Tensor]]:
        """What every residual add gives, per layer, by plain forward hooks."""
        sums_by_layer: dict[str, list[torch.Tensor]] = {}
        with ExitStack() as hooks, torch.no_grad():
            for layer, sums in self.layers(model):
                sums_by_layer[layer] = []
                for path, side in sums:
                    module = model.get_submodule(f"{layer}.{path}".rstrip("."))
                    hooks.callback(_hook(module, side, sums_by_layer[layer]).remove)
            model(**self.inputs())
        return sums_by_layer


def _hook(module: nn.Module, side: str, into: list[torch.Tensor]) -> Any:
    def note(_: nn.Module, args: Any, kwargs: Any, output: Any = None) -> None:
        value = output if side == "out" else (args or tuple(kwargs.values()))[0]
        value = value[0] if isinstance(value, tuple) else value
        into.append(value.detach().clone())

    register = module.register_forward_hook if side == "out" else module.register_forward_pre_hook
    return register(note, with_kwargs=True)


_BEFORE_SECOND_NORM = (("post_attention_layernorm", "in"), ("", "out"))
CASES = (
    Case(
        "gpt2",
        "pre",
        {"vocab_size": 99, "n_embd": 32, "n_layer": LAYERS, "n_head": 4, "n_positions": 64},
        "GPT2LMHeadModel",
        {"transformer.h": (("ln_2", "in"), ("", "out"))},
    ),
    Case("llama", "pre", _GROUPED, "LlamaForCausalLM", {"model.layers": _BEFORE_SECOND_NORM}),
    Case(
        "gemma2",
        "sandwich",
        _GROUPED | {"head_dim": 8},
        "Gemma2ForCausalLM",
        {"model.layers": (("pre_feedforward_layernorm", "in"), ("", "out"))},
    ),
    Case(
        "olmo2",
        "branch-output",
        _GROUPED,
        "Olmo2ForCausalLM",
        {"model.layers": (("mlp", "in"), ("", "out"))},
    ),
    Case(
        "gpt_neox",
        "parallel-pre",
        _SIZES,
        "GPTNeoXForCausalLM",
        {"gpt_neox.layers": (("", "out"),)},
    ),
    Case(
        "bert",
        "post",
        _SIZES,
        "BertForMaskedLM",
        {"bert.encoder.layer": (("attention.output.LayerNorm", "in"), ("output.LayerNorm", "in"))},
    ),
    Case(
        "bloom",
        "pre",
        {"vocab_size": 99, "hidden_size": 32, "n_layer": LAYERS, "n_head": 4},
        "BloomForCausalLM",
        {"transformer.h": (("self_attention", "out"), ("mlp", "out"))},
    ),
    Case(
        "t5",
        "pre",
        {
            "vocab_size": 99,
            "d_model": 32,
            "d_kv": 8,
            "d_ff": 64,
            "num_layers": LAYERS,
            "num_decoder_layers": LAYERS,
            "num_heads": 4,
        },
        "T5ForConditionalGeneration",
        {
            "encoder.block": (("layer.0", "out"), ("layer.1", "out")),
            "decoder.block": (("layer.0", "out"), ("layer.1", "out"), ("layer.2", "out")),
        },
    ),
    Case(
        "opt",
        "post",
        {
            "vocab_size": 99,
            "hidden_size": 32,
            "num_hidden_layers": LAYERS,
            "num_attention_heads": 4,
            "ffn_dim": 64,
            "max_position_embeddings": 64,
            "word_embed_proj_dim": 32,
            "do_layer_norm_before": False,
        },
        "OPTForCausalLM",
        {"model.decoder.layers": (("self_attn_layer_norm", "in"), ("final_layer_norm", "in"))},
    ),
    Case(
        "deepseek_v3",
        "pre",
        _SIZES | _EXPERTS | _LATENTS,
        "DeepseekV3ForCausalLM",
        {"model.layers": _BEFORE_SECOND_NORM},
    ),
)
