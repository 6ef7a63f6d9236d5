"""Images, audio and video among the tokens of a text, for a multimodal language model."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn

from normdiag.errors import NormdiagError
from normdiag.inputs.batch import Batch
from normdiag.inputs.input_requirements import InputRequirements
from normdiag.inputs.synthetic_inputs import generate_noise
from normdiag.inputs.text_inputs import token_texts
from normdiag.loading.describe_exception import describe_exception

_TEXT_LENGTH = 8
"""Tokens of text in addition to the placeholder tokens."""


@dataclass(frozen=True)
class _Modality:
    """A kind of input that an encoder turns into vectors, which replace placeholder tokens."""

    name: str
    argument: str
    encoder_method: str
    placeholder_settings: tuple[str, ...]
    """Settings that may hold the id of the placeholder token."""
    token_type: int
    """In `mm_token_type_ids`; 0 is text."""
    is_list: bool = False
    """Whether each sequence has a list of them, along an axis of its own."""


_IMAGE = _Modality(
    "image", "pixel_values", "get_image_features", ("image_token_id", "image_token_index"), 1
)
_MODALITIES = (
    _IMAGE,
    replace(_IMAGE, is_list=True),
    _Modality(
        "audio", "input_features", "get_audio_features", ("audio_token_id", "audio_token_index"), 3
    ),
    _Modality(
        "video",
        "pixel_values_videos",
        "get_video_features",
        ("video_token_id", "video_token_index"),
        2,
    ),
)


@dataclass(frozen=True)
class _MultimodalSequence:
    batch: Batch
    modalities: tuple[_Modality, ...]
    summaries: tuple[str, ...]


def build_multimodal_batch(
    model: nn.Module, requirements: InputRequirements, seed: int
) -> tuple[Batch | None, str | None]:
    """One sequence with seeded noise for each modality that the model reads, and a note.

    The model's encoder determines how many placeholder tokens an image needs. The sequence is
    run once before it is returned; modalities that the model rejects are named in the note.
    """
    modalities = [each for each in _MODALITIES if _reads_modality(model, requirements, each)]
    if modalities and any(parameter.is_meta for parameter in model.parameters()):
        names = " or ".join(dict.fromkeys(each.name for each in modalities))
        return None, f"no {names} input: the parameters are on the meta device"
    best: _MultimodalSequence | None = None
    failures: dict[str, str] = {}
    for modality in modalities:
        accepted = best.modalities if best is not None else ()
        if any(modality.name == other.name for other in accepted):
            continue
        try:
            best = _try_modalities(model, requirements, (*accepted, modality), seed)
            failures.pop(modality.name, None)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # whatever the forward of a stranger's model raises
            failures.setdefault(modality.name, _describe_failure(error))
    notes = [
        f"no {name} input: the model rejects seeded noise ({reason})"
        for name, reason in failures.items()
    ]
    if best is not None:
        notes.insert(0, f"first sequence with seeded noise as {' and '.join(best.summaries)}")
    return best.batch if best is not None else None, "; ".join(notes) or None


def _reads_modality(model: nn.Module, requirements: InputRequirements, modality: _Modality) -> bool:
    return (
        hasattr(model, modality.encoder_method)
        and modality.argument in requirements.parameters
        and requirements.config_value(*modality.placeholder_settings) is not None
    )


def _describe_failure(error: BaseException) -> str:
    return error.what if isinstance(error, NormdiagError) else describe_exception(error)


def _try_modalities(
    model: nn.Module,
    requirements: InputRequirements,
    modalities: tuple[_Modality, ...],
    seed: int,
) -> _MultimodalSequence:
    with torch.no_grad(), torch.random.fork_rng(devices=[]), _eval_mode(model):
        sequence = _build_sequence(model, requirements, modalities, seed)
        model(**sequence.batch.inputs)
    return sequence


@contextmanager
def _eval_mode(model: nn.Module) -> Iterator[None]:
    """In training mode, a batch norm would add the noise to its running statistics."""
    training = [module for module in model.modules() if module.training]
    for module in training:
        module.training = False
    try:
        yield
    finally:
        for module in training:
            module.training = True


def _build_sequence(
    model: nn.Module,
    requirements: InputRequirements,
    modalities: tuple[_Modality, ...],
    seed: int,
) -> _MultimodalSequence:
    ids = _draw_text_ids(requirements, seed)
    inputs: dict[str, Any] = {}
    summaries, token_types = [], [0] * len(ids)
    for modality in modalities:
        encode = getattr(model, modality.encoder_method)
        encoder_parameters = inspect.signature(encode).parameters
        noise = generate_noise(requirements, modality.argument, encoder_parameters, 1, seed)
        if modality.is_list:
            noise[modality.argument] = noise[modality.argument].unsqueeze(1)
        count = _count_vectors(encode(**noise))
        placeholder = int(requirements.config_value(*modality.placeholder_settings) or 0)
        ids[1:1] = [placeholder] * count
        token_types[1:1] = [modality.token_type] * count
        inputs |= {n: value for n, value in noise.items() if n in requirements.parameters}
        summaries.append(f"{modality.name} ({count} tokens)")
    limit = requirements.max_positions
    if limit is not None and len(ids) > limit:
        raise ValueError(f"{len(ids)} tokens, and the model has {limit} positions")
    inputs["input_ids"] = torch.tensor([ids], device=requirements.device)
    if "mm_token_type_ids" in requirements.parameters:
        inputs["mm_token_type_ids"] = torch.tensor([token_types], device=requirements.device)
    if "use_cache" in requirements.parameters:
        inputs["use_cache"] = False
    batch = Batch(
        inputs=inputs,
        rows=(0,),
        ids=(tuple(ids),),
        tokens=(token_texts(requirements.tokenizer, tuple(ids)),),
        special=((False,) * len(ids),),
    )
    return _MultimodalSequence(batch, modalities, tuple(summaries))


def _draw_text_ids(requirements: InputRequirements, seed: int) -> list[int]:
    """Seeded token ids without placeholders."""
    rows = requirements.embedding_rows or requirements.config_value("vocab_size") or 2
    placeholders = {requirements.config_value(*m.placeholder_settings) for m in _MODALITIES}
    order = torch.randperm(min(rows, 1000), generator=torch.Generator().manual_seed(seed))
    return [i for i in order.tolist() if i not in placeholders][:_TEXT_LENGTH]


def _count_vectors(output: Any) -> int:
    """How many vectors an encoder gives to the text."""
    output = getattr(output, "pooler_output", output)
    if isinstance(output, torch.Tensor):
        return output.numel() // output.shape[-1]
    return sum(_count_vectors(part) for part in output)
