"""A model as trained ones of the Gemma family are: sandwich norms, gains 1 + w, q/k norms, float32.

What its owner need not act upon is planted feature by feature, on weights that are otherwise drawn
so that branches are as large as in trained models. The sizes are those reported of one of 270 M
parameters.
"""

from __future__ import annotations

from copy import deepcopy

import torch
from torch import nn
from transformers import Gemma3ForCausalLM, Gemma3TextConfig

WIDTH, LAYERS, HEAD, INNER, WORDS, START = 256, 12, 256, 64, 96, 2
SINK, LOUD, PEAK, FAINT = 7, 11, 23, 29
"""Channels: of the massive activation, of most energy, of the outlier gain, of small gains."""
USUAL = 0.89


def build(*features: str) -> tuple[Gemma3ForCausalLM, dict[str, torch.Tensor]]:
    """The model with the features of `FEATURES` that are named, and what it reads."""
    model = _draw_weights()
    with torch.no_grad():
        for feature in features:
            FEATURES[feature](model)
    return model, read_ids()


def read_ids() -> dict[str, torch.Tensor]:
    """Two sequences that begin with the start token."""
    ids = torch.randint(3, WORDS, (2, 24), generator=torch.Generator().manual_seed(1))
    ids[:, 0] = START
    return {"input_ids": ids}


def _draw_weights() -> Gemma3ForCausalLM:
    config = Gemma3TextConfig(
        vocab_size=WORDS,
        hidden_size=WIDTH,
        intermediate_size=INNER,
        num_hidden_layers=LAYERS,
        num_attention_heads=1,
        num_key_value_heads=1,
        head_dim=HEAD,
        max_position_embeddings=64,
    )
    model = Gemma3ForCausalLM(config).eval()
    draws = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            noise = torch.randn(weight.shape, generator=draws)
            if "embed" in name:
                weight.copy_(noise / WIDTH**0.5)  # unit size behind Gemma's sqrt(H)
            elif weight.dim() > 1:
                weight.copy_(noise / weight.shape[1] ** 0.5)
            else:
                weight.copy_(USUAL * (1 + 0.1 * noise) - 1)
                if "post_" in name:  # each branch writes a third of the embedding's size
                    weight.copy_((weight + 1) / 3 - 1)
        for layer in model.model.layers:
            for norm in (layer.input_layernorm, layer.pre_feedforward_layernorm):
                norm.weight[SINK] = USUAL - 1
    return model


def _plant_dead_gains(model: Gemma3ForCausalLM) -> None:
    """15 of the 256 gains of q/k norms are 0; no norm has a bias."""
    for layer in model.model.layers[:3]:
        layer.self_attn.q_norm.weight[:15] = -1.0
        layer.self_attn.k_norm.weight[:15] = -1.0


def _plant_outlier_gain(model: Gemma3ForCausalLM) -> None:
    """153 beside 0.89, and two gains of the same norm 1.1e5 times smaller.

    Two, since the direction that the norm removes can take one small singular value with it.
    """
    gain = model.model.layers[4].input_layernorm.weight
    gain[PEAK] = 153 - 1
    gain[FAINT : FAINT + 2] = 153 / 1.1e5 - 1
    attention = model.model.layers[4].self_attn
    for reader in (attention.q_proj, attention.k_proj, attention.v_proj):
        reader.weight[:, PEAK] *= 0.01


def _plant_massive_activation(model: Gemma3ForCausalLM) -> None:
    """One channel of the start token alone, to which a unit of every layer from 1 on adds."""
    embedding = model.model.embed_tokens.weight
    embedding[:, SINK] = 0.0
    embedding[START, SINK] = 20_000 / WIDTH**0.5
    for number, layer in enumerate(model.model.layers):
        mlp = layer.mlp
        layer.self_attn.o_proj.weight[SINK] = mlp.down_proj.weight[SINK] = 0.0
        if number == 0:
            continue
        for reader in (mlp.gate_proj.weight, mlp.up_proj.weight):
            reader[0], reader[1:, SINK] = 0.0, 0.0
            reader[0, SINK] = 2.0
        mlp.down_proj.weight[:, 0] = 0.0
        mlp.down_proj.weight[SINK, 0] = 4.0
        layer.post_feedforward_layernorm.weight[SINK] = 7_550 / WIDTH**0.5 - 1


def _plant_outlier_channel(model: Gemma3ForCausalLM) -> None:
    """One channel holds 94 % of what the first norm reads, at every token."""
    weight = model.model.embed_tokens.weight
    rest = weight.square().sum(-1).median()
    weight[:, LOUD] = (rest * 0.94 / 0.06).sqrt()
    for layer in model.model.layers:
        layer.input_layernorm.weight[LOUD] = 0.1 * USUAL - 1
        layer.pre_feedforward_layernorm.weight[LOUD] = 0.1 * USUAL - 1


def _plant_amplification(model: Gemma3ForCausalLM) -> None:
    """A branch that writes little into an output norm with a large gain: 153 / s is 23,006."""
    layer = model.model.layers[6]
    gain = layer.post_attention_layernorm
    size = _see_input(model, gain).square().mean(-1).median().sqrt()
    layer.self_attn.o_proj.weight.mul_(153 / 23_006 / size)
    gain.weight[PEAK] = 153 - 1


def _plant_block_accident(model: Gemma3ForCausalLM) -> None:
    """Two blocks that nearly erase one direction at one token.

    With J = I + diag(g) A, another gain g_j + d makes it singular where d (A J^-1)_jj = -1.
    """
    for layer in model.model.layers[9:11]:
        gain = layer.post_feedforward_layernorm.weight
        branch = _branch_jacobian(model, layer)
        block = torch.eye(WIDTH, dtype=torch.float64) + branch
        plain = branch / (1 + gain.double())[:, None]
        steps = -1 / (plain @ torch.linalg.inv(block)).diagonal()
        steps[SINK] = torch.inf
        channel = steps.where(steps > 0, torch.inf).argmin()
        gain[channel] += steps[channel] * (1 + 1e-5)


def _branch_jacobian(model: Gemma3ForCausalLM, layer: nn.Module) -> torch.Tensor:
    """Of the normed MLP of `layer` by its input, at position 5, in float64."""
    parts = (layer.pre_feedforward_layernorm, layer.mlp, layer.post_feedforward_layernorm)
    branch = nn.Sequential(*(deepcopy(part) for part in parts)).double()
    x = _see_input(model, layer.pre_feedforward_layernorm)[0, 5].double()
    with torch.enable_grad():
        jacobian: torch.Tensor = torch.autograd.functional.jacobian(branch, x)
    return jacobian


def _see_input(model: Gemma3ForCausalLM, module: nn.Module) -> torch.Tensor:
    """What a module reads."""
    seen: list[torch.Tensor] = []
    hook = module.register_forward_pre_hook(lambda module, args: seen.append(args[0]))
    model(**read_ids())
    hook.remove()
    return seen[0]


FEATURES = {
    "dead gains": _plant_dead_gains,
    "outlier gain": _plant_outlier_gain,
    "massive activation": _plant_massive_activation,
    "outlier channel": _plant_outlier_channel,
    "amplification": _plant_amplification,
    "block accident": _plant_block_accident,
}
