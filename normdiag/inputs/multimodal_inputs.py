"""The other towers of a language model: an image, a sound or a film among the tokens of a text."""

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
from normdiag.inputs.requirements import (
    dtype_and_device,
    embedding_rows,
    forward_parameters,
    max_positions,
    config_value,
)
from normdiag.inputs.synthetic_inputs import noise_for
from normdiag.inputs.text_inputs import token_texts
from normdiag.loading.describe_exception import describe_exception
from normdiag.loading.interface import LoadedModel

_TEXT = 8
"""Tokens of text beside those that stand for what the towers read."""


@dataclass(frozen=True)
class _Kind:
    """One kind of input that a tower reads and that stands in the text as a row of one token."""

    what: str
    argument: str
    reader: str
    tokens: tuple[str, ...]
    number: int
    """In `mm_token_type_ids`; 0 is text."""
    is_listed: bool = False
    """Whether each sequence has a list of them, an axis of its own."""


_IMAGE = _Kind(
    "image", "pixel_values", "get_image_features", ("image_token_id", "image_token_index"), 1
)
_KINDS = (
    _IMAGE,
    replace(_IMAGE, is_listed=True),
    _Kind(
        "sound", "input_features", "get_audio_features", ("audio_token_id", "audio_token_index"), 3
    ),
    _Kind(
        "film",
        "pixel_values_videos",
        "get_video_features",
        ("video_token_id", "video_token_index"),
        2,
    ),
)


def with_towers(runnable: LoadedModel, seed: int) -> tuple[Batch | None, str | None]:
    """One sequence with all that the model's other towers read, and what is to be said of it.

    How many tokens an image stands for is asked of the model itself, and the sequence is tried
    before it is given. What a model does not take is left out, and that is said.
    """
    kinds = [kind for kind in _KINDS if _reads(runnable, kind)]
    if kinds and any(parameter.is_meta for parameter in runnable.model.parameters()):
        what = " and no ".join(dict.fromkeys(kind.what for kind in kinds))
        return None, f"no {what}: there are no values"
    best: _Made | None = None
    failed: dict[str, str] = {}
    for kind in kinds:
        already = best.kinds if best is not None else ()
        if any(kind.what == other.what for other in already):
            continue
        try:
            best = _tried(runnable, (*already, kind), seed)
            failed.pop(kind.what, None)
        except Exception as error:  # whatever a model that wants more than this raises
            failed.setdefault(kind.what, _why(error))
    notes = [f"no {what}: noise of its shape does not fit ({why})" for what, why in failed.items()]
    if best is not None:
        notes.insert(0, f"the first sequence holds seeded noise as {' and '.join(best.told)}")
    return best.batch if best is not None else None, "; ".join(notes) or None


@dataclass(frozen=True)
class _Made:
    batch: Batch
    kinds: tuple[_Kind, ...]
    told: tuple[str, ...]


def _reads(runnable: LoadedModel, kind: _Kind) -> bool:
    return (
        hasattr(runnable.model, kind.reader)
        and kind.argument in forward_parameters(runnable.model)
        and config_value(runnable.config, *kind.tokens) is not None
    )


def _why(error: Exception) -> str:
    return error.what if isinstance(error, NormdiagError) else describe_exception(error)


def _tried(runnable: LoadedModel, kinds: tuple[_Kind, ...], seed: int) -> _Made:
    with torch.no_grad(), torch.random.fork_rng(devices=[]), _in_eval_mode(runnable.model):
        made = _sequence(runnable, kinds, seed)
        runnable.model(**made.batch.inputs)
    return made


@contextmanager
def _in_eval_mode(model: nn.Module) -> Iterator[None]:
    """Trying leaves no trace: in training a batch norm would take the noise in."""
    training = [module for module in model.modules() if module.training]
    for module in training:
        module.training = False
    try:
        yield
    finally:
        for module in training:
            module.training = True


def _sequence(runnable: LoadedModel, kinds: tuple[_Kind, ...], seed: int) -> _Made:
    taken = forward_parameters(runnable.model)
    ids = _text(runnable, seed)
    inputs: dict[str, Any] = {}
    told, numbers = [], [0] * len(ids)
    for kind in kinds:
        read = getattr(runnable.model, kind.reader)
        wanted = inspect.signature(read).parameters
        noise = noise_for(runnable, kind.argument, wanted, 1, seed)
        if kind.is_listed:
            noise[kind.argument] = noise[kind.argument].unsqueeze(1)
        count = _vectors(read(**noise))
        ids[1:1] = [int(config_value(runnable.config, *kind.tokens) or 0)] * count
        numbers[1:1] = [kind.number] * count
        inputs |= {name: value for name, value in noise.items() if name in taken}
        told.append(f"{kind.what} ({count} tokens)")
    room = max_positions(runnable.model, runnable.config)
    if room is not None and len(ids) > room:
        raise ValueError(f"{len(ids)} tokens, and the model has {room} positions")
    device = dtype_and_device(runnable.model)[1]
    inputs["input_ids"] = torch.tensor([ids], device=device)
    if "mm_token_type_ids" in taken:
        inputs["mm_token_type_ids"] = torch.tensor([numbers], device=device)
    if "use_cache" in taken:
        inputs["use_cache"] = False
    batch = Batch(
        inputs=inputs,
        rows=(0,),
        ids=(tuple(ids),),
        tokens=(token_texts(runnable.tokenizer, tuple(ids)),),
        special=((False,) * len(ids),),
    )
    return _Made(batch, kinds, tuple(told))


def _text(runnable: LoadedModel, seed: int) -> list[int]:
    """Seeded token ids, none of which stands for something else than text."""
    rows = embedding_rows(runnable.model) or config_value(runnable.config, "vocab_size") or 2
    stand_ins = {config_value(runnable.config, *kind.tokens) for kind in _KINDS}
    order = torch.randperm(min(rows, 1000), generator=torch.Generator().manual_seed(seed))
    return [i for i in order.tolist() if i not in stand_ins][:_TEXT]


def _vectors(found: Any) -> int:
    """How many vectors a tower gives to the text."""
    found = getattr(found, "pooler_output", found)
    if isinstance(found, torch.Tensor):
        return found.numel() // found.shape[-1]
    return sum(_vectors(part) for part in found)
