"""Seeded inputs for transformers models of other kinds than text, from the model's own facts."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch

from normdiag.errors import RunError
from normdiag.inputs.batch import Batch
from normdiag.inputs.input_shapes import Patches, example_of, patches_of
from normdiag.inputs.requirements import (
    dtype_and_device,
    embedding_rows,
    forward_parameters,
    needed_inputs,
    config_value,
)
from normdiag.inputs.text_inputs import shifted
from normdiag.loading.interface import LoadedModel

_BATCH = 2
_DECODER_LENGTH = 16
_COMPANIONS = {
    "past_values": ("past_time_features", "future_values", "future_time_features"),
    "input_ids": ("visual_feats", "visual_pos", "visual_embeds"),
}
"""What belongs to an input, though forward's signature may not insist on it."""
_GRIDS = {
    "pixel_values": ("image_grid_thw", "grid_thw"),
    "pixel_values_videos": ("video_grid_thw",),
    "hidden_states": ("grid_thw",),
}


def synthetic(runnable: LoadedModel, name: str, seed: int) -> Batch:
    """Noise for the input `name`, with ids for a decoder beside it where there is one.

    Raises RunError, naming the argument, where its shape cannot be told from the model.
    """
    taken = forward_parameters(runnable.model)
    inputs: dict[str, Any] = noise_for(runnable, name, taken, _BATCH, seed)
    if "decoder_input_ids" in taken and getattr(runnable.config, "is_encoder_decoder", False):
        inputs["decoder_input_ids"] = _decoder_ids(runnable, seed).to(inputs[name].device)
    if "use_cache" in taken:
        inputs["use_cache"] = False
    return _with_needed(runnable, Batch(inputs=inputs, rows=tuple(range(_BATCH))), seed)


def beside_text(runnable: LoadedModel, batch: Batch, seed: int) -> Batch:
    """`batch` with noise for what forward needs beside text, and for a second tower (CLIP's).

    A language model that reads images stands images in for tokens of its text, so text alone runs.
    """
    config, taken = runnable.config, forward_parameters(runnable.model)
    sees = config_value(config, "patch_size", "image_size") is not None
    in_text = config_value(config, "image_token_id", "image_token_index") is not None
    batch = _with_needed(runnable, batch, seed)
    batch = replace(batch, inputs=batch.inputs | _companions(runnable, "input_ids", batch, seed))
    if "bbox" in taken and "input_ids" in batch.inputs:
        boxes = _boxes(runnable, batch.inputs["input_ids"])
        batch = replace(batch, inputs=batch.inputs | {"bbox": boxes})
    name = "pixel_values"
    if not sees or in_text or name not in taken or name in batch.inputs:
        return batch
    images = noise_for(runnable, name, taken, len(batch.rows), seed)
    return replace(batch, inputs=images | batch.inputs)


def noise_for(
    runnable: LoadedModel, name: str, wanted: Mapping[str, inspect.Parameter], rows: int, seed: int
) -> dict[str, torch.Tensor]:
    """Noise for `name`, with its mask (all set) or grid where `wanted` has one.

    Raises RunError, naming the argument, where nothing tells its shape.
    """
    device = dtype_and_device(runnable.model)[1]
    grid = next((each for each in _GRIDS.get(name, ()) if each in wanted), None)
    if grid is not None and (patches := patches_of(runnable)) is not None:
        return _cut(runnable, (name, grid), patches, rows, seed)
    if name == "pixel_values" and "spatial_shapes" in wanted and (cut := patches_of(runnable)):
        return _listed(runnable, cut, rows, seed)
    example = example_of(runnable, name)
    if example is None:
        raise cannot_guess(runnable, name)
    made = {name: _noise(runnable, example.shape, rows, seed)}
    if (mask := f"{name}_mask") in wanted:
        frames = example.shape[example.time]
        made[mask] = torch.ones(rows, frames, dtype=torch.bool, device=device)
    if name == "past_values" and "past_observed_mask" in wanted:  # value by value
        made["past_observed_mask"] = torch.ones_like(made[name])
    if "image_sizes" in wanted and name == "pixel_values" and _insists(wanted["image_sizes"]):
        made["image_sizes"] = torch.tensor([example.shape[-2:]] * rows, device=device)
    return made


def cannot_guess(runnable: LoadedModel, name: str) -> RunError:
    """The error that names the input that has to be given, and how."""
    return RunError(
        f"{runnable.class_name} takes {name!r}, and nothing says what shape it has",
        f"give all that forward needs, {name!r} among it: --inputs FILE (a .safetensors or JSON "
        f"file whose keys are arguments of forward), in Python inputs={{{name!r}: tensor, ...}}",
    )


def _insists(parameter: inspect.Parameter) -> bool:
    return parameter.default is parameter.empty


def _with_needed(runnable: LoadedModel, batch: Batch, seed: int) -> Batch:
    inputs = dict(batch.inputs)
    for name in list(inputs):
        inputs |= _companions(runnable, name, batch, seed)
    taken = forward_parameters(runnable.model)
    for name in needed_inputs(runnable.model):
        if name not in inputs:
            inputs |= noise_for(runnable, name, taken, len(batch.rows), seed)
    return replace(batch, inputs=inputs)


def _companions(runnable: LoadedModel, name: str, batch: Batch, seed: int) -> dict[str, torch.Tensor]:
    taken = forward_parameters(runnable.model)
    made: dict[str, torch.Tensor] = {}
    for other in _COMPANIONS.get(name, ()):
        example = example_of(runnable, other)
        if other in taken and other not in batch.inputs and example is not None:
            made[other] = _noise(runnable, example.shape, len(batch.rows), seed)
    return made


def _noise(runnable: LoadedModel, shape: tuple[int, ...], rows: int, seed: int) -> torch.Tensor:
    dtype, device = dtype_and_device(runnable.model)
    generator = torch.Generator().manual_seed(seed)
    return torch.randn((rows, *shape), generator=generator).to(device=device, dtype=dtype)


def _cut(
    runnable: LoadedModel, names: tuple[str, str], patches: Patches, rows: int, seed: int
) -> dict[str, torch.Tensor]:
    """The patches of all images in one row, and the grid of each."""
    values = _noise(runnable, (patches.width,), rows * patches.count, seed)
    grids = torch.tensor([patches.grid] * rows, device=values.device)
    return dict(zip(names, (values, grids), strict=True))


def _listed(runnable: LoadedModel, patches: Patches, rows: int, seed: int) -> dict[str, torch.Tensor]:
    """The patches of each image by itself, which of them are there, and their grid."""
    values = _noise(runnable, (patches.count, patches.width), rows, seed)
    return {
        "pixel_values": values,
        "pixel_attention_mask": torch.ones(rows, patches.count, device=values.device).long(),
        "spatial_shapes": torch.tensor([patches.grid[1:]] * rows, device=values.device),
    }


def _boxes(runnable: LoadedModel, ids: torch.Tensor) -> torch.Tensor:
    """Where each token stands on its page: all at one place, in whole or in stated numbers."""
    width = config_value(runnable.config, "dim_bbox")
    dtype = torch.long if width is None else dtype_and_device(runnable.model)[0]
    return torch.zeros(*ids.shape, width or 4, dtype=dtype, device=ids.device)


def _decoder_ids(runnable: LoadedModel, seed: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    rows = config_value(runnable.config, "vocab_size") or embedding_rows(runnable.model) or 2
    longest = config_value(runnable.config, "max_target_positions") or _DECODER_LENGTH
    shape = (_BATCH, min(_DECODER_LENGTH, longest))
    return shifted(torch.randint(rows, shape, generator=generator), runnable.config)
