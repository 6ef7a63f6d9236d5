"""What a model's inputs must satisfy, read once from model, configuration and tokenizer."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import nn

from normdiag.loading.interface import LoadedModel

_CONFIG_SECTIONS = (
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
_POSITION_SETTINGS = (
    "max_position_embeddings",
    "max_encoder_position_embeddings",
    "max_decoder_position_embeddings",
    "n_positions",
    "max_sequence_length",
    "n_ctx",
    "block_size",
)
_KNOWN_INPUTS = ("input_ids", "pixel_values", "input_features", "input_values", "past_values")
_NO_LIMIT = 10**9
"""Tokenizers without a limit state a larger number than this."""


class FirstWeight(NamedTuple):
    """The parameter that was registered first, its module and that module's path."""

    path: str
    weight: torch.Tensor
    module: Any

    @property
    def is_embedding(self) -> bool:
        """Whether the parameter is indexed by token ids."""
        return isinstance(self.module, (nn.Embedding, nn.EmbeddingBag))


@dataclass(frozen=True, kw_only=True)
class InputRequirements:
    """What `forward` accepts, and what configuration, weights and tokenizer say of its inputs."""

    class_name: str
    parameters: Mapping[str, inspect.Parameter]
    """The arguments of forward by name, without `*args` and `**kwargs`."""
    main_input: str | None
    """`main_input_name` of a transformers model; None for any other module."""
    config: Any | None
    config_sections: tuple[Any, ...]
    """The configuration, then its parts, such as `text_config`."""
    tokenizer: Any | None
    special_ids: frozenset[int]
    """Ids of the tokenizer's special tokens."""
    dtype: torch.dtype
    """Of floating-point inputs."""
    device: torch.device
    """Of all inputs. The CPU for a model on the meta device, since token ids need values."""
    embedding_rows: int | None
    """Rows of the input embedding, the number of valid token ids; None where it is unknown."""
    first_weight: FirstWeight | None
    max_positions: int | None
    """Tokens that the model has positions for."""
    max_length: int | None
    """Tokens of a sequence: the smaller of `max_positions` and the tokenizer's limit."""
    is_structure_only: bool

    @property
    def required_inputs(self) -> list[str]:
        """The arguments of forward without a default."""
        return [name for name, p in self.parameters.items() if p.default is p.empty]

    @property
    def takes_decoder_ids(self) -> bool:
        """Whether it is an encoder-decoder whose decoder reads ids of its own."""
        is_encoder_decoder = getattr(self.config, "is_encoder_decoder", False)
        return "decoder_input_ids" in self.parameters and bool(is_encoder_decoder)

    def config_value(self, *names: str) -> Any | None:
        """The first of `names` that the configuration, or a part of it, has a value for."""
        return _find_value(self.config_sections, names)

    def name_arguments(
        self, args: tuple[Any, ...], named: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Turn positional arguments into named ones, where forward has names for all of them."""
        names = [name for name in self.parameters if name not in named]
        if len(args) > len(names):
            return args, named
        return (), dict(zip(names, args, strict=False)) | named


def collect_requirements(loaded: LoadedModel) -> InputRequirements:
    """Read the requirements from model, configuration and tokenizer."""
    model, tokenizer = loaded.model, loaded.tokenizer
    parameters = forward_parameters(model)
    first_weight = _find_first_weight(model)
    dtype, device = _input_dtype_and_device(model)
    max_positions = _read_max_positions(model, loaded.config)
    limits = (max_positions, getattr(tokenizer, "model_max_length", None))
    return InputRequirements(
        class_name=loaded.class_name,
        parameters=parameters,
        main_input=_find_main_input(model, parameters),
        config=loaded.config,
        config_sections=tuple(_iterate_config_sections(loaded.config)),
        tokenizer=tokenizer,
        special_ids=frozenset(getattr(tokenizer, "all_special_ids", ())),
        dtype=dtype,
        device=device,
        embedding_rows=_count_embedding_rows(model, first_weight),
        first_weight=first_weight,
        max_positions=max_positions,
        max_length=min(
            (n for n in limits if isinstance(n, int) and 0 < n < _NO_LIMIT), default=None
        ),
        is_structure_only=loaded.mode == "structure-only",
    )


def config_value(config: Any, *names: str) -> Any | None:
    """The first of `names` that `config`, or a part of it, has a value for."""
    return _find_value(_iterate_config_sections(config), names)


def forward_parameters(model: nn.Module) -> dict[str, inspect.Parameter]:
    """The arguments of `model.forward` by name, without `*args` and `**kwargs`.

    None where nothing states them, as of a function that is written in C.
    """
    variadic = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    try:
        parameters = inspect.signature(model.forward).parameters
    except (ValueError, TypeError):
        schema = getattr(model.forward, "schema", None)  # of a TorchScript method
        return {} if schema is None else dict(_iterate_arguments(schema))
    return {name: p for name, p in parameters.items() if p.kind not in variadic}


def _iterate_arguments(schema: Any) -> Iterator[tuple[str, inspect.Parameter]]:
    for each in schema.arguments[1:]:
        default = each.default_value if each.has_default_value() else inspect.Parameter.empty
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        yield each.name, inspect.Parameter(each.name, kind, default=default)


def _find_value(sections: Iterable[Any], names: tuple[str, ...]) -> Any | None:
    for section in sections:
        for name in names:
            if (value := getattr(section, name, None)) is not None:
                return value
    return None


def _iterate_config_sections(config: Any) -> Iterator[Any]:
    if config is None:
        return
    yield config
    for name in _CONFIG_SECTIONS:
        section = getattr(config, name, None)
        if section is not None and not isinstance(section, (int, str, bool)):
            yield section


def _find_main_input(model: nn.Module, parameters: Mapping[str, inspect.Parameter]) -> str | None:
    name = getattr(model, "main_input_name", None)
    if name is None:
        return None
    if isinstance(name, str) and name in parameters:
        return name
    first = next(iter(parameters), None)  # an encoder keeps the name of its whole model's input
    takes_patches = "grid_thw" in parameters
    return first if first in _KNOWN_INPUTS or takes_patches else None


def _count_embedding_rows(model: nn.Module, first_weight: FirstWeight | None) -> int | None:
    get_embeddings = getattr(model, "get_input_embeddings", None)
    if get_embeddings is None:
        is_embedding = first_weight is not None and first_weight.is_embedding
        return first_weight.module.num_embeddings if first_weight and is_embedding else None
    try:
        weight = getattr(get_embeddings(), "weight", None)
    except (NotImplementedError, AttributeError):
        return None
    return weight.shape[0] if isinstance(weight, torch.Tensor) and weight.ndim == 2 else None


def _find_first_weight(model: nn.Module) -> FirstWeight | None:
    """The parameter registered first: in most modules, the first one that is used."""
    for path, module in model.named_modules():
        for weight in module.parameters(recurse=False):
            if weight.ndim > 0:
                return FirstWeight(path or type(model).__name__, weight, module)
    return None


def _read_max_positions(model: nn.Module, config: Any) -> int | None:
    """The stated number of positions.

    A position table with a padding row (RoBERTa's) counts from behind it, so it holds fewer.
    """
    section = getattr(config, "text_config", None)
    section = config if section is None else section
    values = (getattr(section, name, None) for name in _POSITION_SETTINGS)
    stated = min((n for n in values if isinstance(n, int) and n > 0), default=None)
    if stated is None:
        return None
    for module in model.modules():
        weight, padding = getattr(module, "weight", None), getattr(module, "padding_idx", None)
        if isinstance(padding, int) and isinstance(weight, torch.Tensor) and len(weight) == stated:
            return stated - padding - 1
    return stated


def _input_dtype_and_device(model: nn.Module) -> tuple[torch.dtype, torch.device]:
    """Dtype and device of the first floating-point parameter; the CPU in place of meta."""
    for parameter in model.parameters():
        if parameter.is_floating_point():
            device = torch.device("cpu") if parameter.is_meta else parameter.device
            return parameter.dtype, device
    return torch.get_default_dtype(), torch.device("cpu")
