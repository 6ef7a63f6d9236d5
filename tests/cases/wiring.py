"""Wirings that are wrong, and right ones that look wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from tests.cases.tiny import change_config, ids, make_model, save, writes_upwards

Inputs = dict[str, Any]


def post_norm_without_final_norm(directory: Path) -> Inputs:
    """OPT-350m: rightly none, and its embeddings are narrower than the stream."""
    save(
        make_model("OPT", do_layer_norm_before=False, word_embed_proj_dim=16, ffn_dim=48), directory
    )
    return ids()


def parallel_by_default(directory: Path) -> Inputs:
    """GPT-NeoX weights of a sequential model; the configuration does not say so any more."""
    save(make_model("GPTNeoX", use_parallel_residual=False), directory)
    change_config(directory, use_parallel_residual=None)
    return ids()


def residual_inside_modules(directory: Path) -> Inputs:
    """BLOOM's attention and MLP modules add the stream to what they return."""
    save(make_model("Bloom", hidden_size=32, n_layer=4, n_head=2, vocab_size=64), directory)
    return ids()


def scaled_branches(directory: Path) -> Inputs:
    """Granite: 12 times the embedding, and 0.22 of every branch."""
    settings = {"embedding_multiplier": 12.0, "residual_multiplier": 0.22, "logits_scaling": 8.0}
    save(make_model("Granite", **settings), directory)
    return ids()


@torch.no_grad()
def layers_repeated(directory: Path) -> Inputs:
    """Layers 1 and 2 of 4 three times, as a passthrough merge makes them."""
    base, merged = make_model("Llama"), make_model(
        "Llama", hidden_size=32, num_hidden_layers=8, num_attention_heads=2,
        num_key_value_heads=2, intermediate_size=48, vocab_size=64,
    )  # fmt: skip
    for number, layer in enumerate(base.model.layers):
        writes_upwards(layer.mlp, channel=3, size=1.0 + number)
    for new, old in enumerate((0, 1, 2, 1, 2, 1, 2, 3)):
        merged.model.layers[new].load_state_dict(base.model.layers[old].state_dict())
    save(merged, directory)
    return ids()


def first_norm_left_out(directory: Path) -> Inputs:
    """ModernBERT reads the embedding norm's output: block 0 needs no norm of its own."""
    tokens = {"cls_token_id": 1, "sep_token_id": 2}
    save(make_model("ModernBert", "Model", norm_bias=False, **tokens), directory)
    return ids()


@torch.no_grad()
def second_stage_explodes(directory: Path) -> Inputs:
    """Swin: the stream changes its width and its length between the stages."""
    model = make_model("Swin", "Model", image_size=32, patch_size=2, embed_dim=16, depths=[2, 2],
                 num_heads=[2, 2], window_size=4, hidden_size=32)  # fmt: skip
    model.encoder.layers[1].blocks[1].mlp.fc2.bias.fill_(40.0)
    save(model, directory)
    return {"pixel_values": torch.randn(1, 3, 32, 32, generator=torch.Generator().manual_seed(5))}


CODE = """
import torch
import torch.nn.functional as F
from torch import nn
from transformers import PretrainedConfig, PreTrainedModel
from transformers.modeling_outputs import CausalLMOutput

class Config(PretrainedConfig):
    model_type = "no_modules_called_norm"
    def __init__(self, wide=32, deep=4, vocab_size=64, **more):
        self.wide, self.deep, self.vocab_size = wide, deep, vocab_size
        super().__init__(**more)

class Step(nn.Module):
    def __init__(self, wide):
        super().__init__()
        self.a, self.b = nn.Parameter(torch.ones(wide)), nn.Parameter(torch.ones(wide))
        self.mix, self.out = nn.Linear(wide, wide, bias=False), nn.Linear(wide, wide, bias=False)
    def forward(self, x):
        past = torch.ones(x.shape[1], x.shape[1]).tril()
        past = past / past.sum(-1, keepdim=True)
        x = x + past @ self.mix(F.rms_norm(x, x.shape[-1:], self.a, 1e-6))
        return x + self.out(F.silu(F.rms_norm(x, x.shape[-1:], self.b, 1e-6)))

class Bare(PreTrainedModel):
    config_class = Config
    def __init__(self, config):
        super().__init__(config)
        self.tokens = nn.Embedding(config.vocab_size, config.wide)
        self.steps = nn.ModuleList(Step(config.wide) for _ in range(config.deep))
        self.c = nn.Parameter(torch.ones(config.wide))
        self.head = nn.Linear(config.wide, config.vocab_size, bias=False)
        self.post_init()
    def forward(self, input_ids=None, attention_mask=None, **more):
        x = self.tokens(input_ids)
        for step in self.steps:
            x = step(x)
        return CausalLMOutput(logits=self.head(F.rms_norm(x, x.shape[-1:], self.c, 1e-6)))
"""


def functional_norms_of_own_code(directory: Path) -> Inputs:
    """No module is a norm, the code is the checkpoint's own, and each step writes 3 times more."""
    draws = torch.Generator().manual_seed(0)

    def drawn(*shape: int, size: float) -> torch.Tensor:
        return size * torch.randn(shape, generator=draws)

    tensors = {"tokens.weight": drawn(64, 32, size=0.5), "head.weight": drawn(64, 32, size=0.2)}
    tensors["c"] = torch.ones(32)
    for step in range(4):
        tensors |= {f"steps.{step}.{name}": torch.ones(32) for name in "ab"}
        for name in ("mix", "out"):
            tensors[f"steps.{step}.{name}.weight"] = drawn(32, 32, size=0.5 * 3.0**step)
    save_file(tensors, directory / "model.safetensors", metadata={"format": "pt"})
    (directory / "modeling.py").write_text(CODE)
    (directory / "config.json").write_text("{}")
    change_config(
        directory,
        model_type="no_modules_called_norm",
        architectures=["Bare"],
        auto_map={"AutoConfig": "modeling.Config", "AutoModelForCausalLM": "modeling.Bare"},
    )
    return ids()
