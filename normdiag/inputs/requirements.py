"""What a model says of its own inputs: its forward's signature, embedding and positions."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import nn

_PARTS = (
    "text_config",
    "vision_config",
    "image_config",
    "audio_config",
    "encoder",
    "decoder",
    "backbone_config",
    "speech_encoder_config",
    "encoder_config",
    "decoder_config",
    "speech_config",
)
_POSITIONS = (
    "max_position_embeddings",
    "max_encoder_position_embeddings",
    "max_decoder_position_embeddings",
    "n_positions",
    "max_sequence_length",
    "n_ctx",
    "block_size",
)
KNOWN_INPUTS = ("input_ids", "pixel_values", "input_features", "input_values", "past_values")
"""What something can be made up for."""


class FirstWeight(NamedTuple):
    """A parameter, the module that owns it and that module's path."""

    path: str
    weight: torch.Tensor
    module: Any

    @property
    def is_table(self) -> bool:
        """Whether it is looked up by token ids."""
        return isinstance(self.module, (nn.Embedding, nn.EmbeddingBag))


def forward_parameters(model: nn.Module) -> dict[str, inspect.Parameter]:
    """The arguments of `model.forward` by name, without `*args` and `**kwargs`."""
    open_ended = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    parameters = inspect.signature(model.forward).parameters
    return {name: p for name, p in parameters.items() if p.kind not in open_ended}


def config_value(config: Any, *names: str) -> Any | None:
    """The first of `names` that the configuration, or a part of it, has a value for."""
    for part in _parts(config):
        for name in names:
            if (value := getattr(part, name, None)) is not None:
                return value
    return None


def main_input(model: nn.Module) -> str | None:
    """The name of the input that a transformers model is about; None for any other module."""
    name = getattr(model, "main_input_name", None)
    if name is None:
        return None
    taken = forward_parameters(model)
    if isinstance(name, str) and name in taken:
        return name
    first = next(iter(taken), None)  # a tower keeps the name that its whole model goes by
    in_patches = "grid_thw" in taken
    return first if first in KNOWN_INPUTS or in_patches else None


def by_name(
    model: nn.Module, args: tuple[Any, ...], named: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The same arguments, by name where forward has names for all of them."""
    names = [name for name in forward_parameters(model) if name not in named]
    if len(args) > len(names):
        return args, named
    return (), dict(zip(names, args, strict=False)) | named


def needed_inputs(model: nn.Module) -> list[str]:
    """The arguments that forward cannot do without."""
    empty = inspect.Parameter.empty
    return [name for name, p in forward_parameters(model).items() if p.default is empty]


def embedding_rows(model: nn.Module) -> int | None:
    """How many token ids the model has a row for, where that can be told."""
    find = getattr(model, "get_input_embeddings", None)
    if find is None:
        first = first_weight(model)
        return first.module.num_embeddings if first and first.is_table else None
    try:
        weight = getattr(find(), "weight", None)
    except (NotImplementedError, AttributeError):
        return None
    return weight.shape[0] if isinstance(weight, torch.Tensor) and weight.ndim == 2 else None


def first_weight(model: nn.Module) -> FirstWeight | None:
    """The parameter that was registered first: in most modules, the first one that is used."""
    for path, module in model.named_modules():
        for weight in module.parameters(recurse=False):
            if weight.ndim > 0:
                return FirstWeight(path or type(model).__name__, weight, module)
    return None


def max_positions(model: nn.Module, config: Any) -> int | None:
    """How many tokens the model has positions for.

    A position table with a padding row (RoBERTa's) counts from behind it, so it holds fewer.
    """
    part = _text_part(config)
    values = (getattr(part, name, None) for name in _POSITIONS)
    stated = min((n for n in values if isinstance(n, int) and n > 0), default=None)
    if stated is None:
        return None
    for module in model.modules():
        weight, padding = getattr(module, "weight", None), getattr(module, "padding_idx", None)
        if isinstance(padding, int) and isinstance(weight, torch.Tensor) and len(weight) == stated:
            return stated - padding - 1
    return stated


def dtype_and_device(model: nn.Module) -> tuple[torch.dtype, torch.device]:
    """Those of the first floating parameter: what inputs are to be given in.

    For a model on the meta device they are made on the CPU: their values say which tokens they are.
    """
    for parameter in model.parameters():
        if parameter.is_floating_point():
            device = torch.device("cpu") if parameter.is_meta else parameter.device
            return parameter.dtype, device
    return torch.get_default_dtype(), torch.device("cpu")


def _text_part(config: Any) -> Any:
    part = getattr(config, "text_config", None)
    return config if part is None else part


def _parts(config: Any) -> Iterator[Any]:
    if config is None:
        return
    yield config
    for name in _PARTS:
        part = getattr(config, name, None)
        if part is not None and not isinstance(part, (int, str, bool)):
            yield part
