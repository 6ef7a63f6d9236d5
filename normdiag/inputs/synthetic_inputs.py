"""Seeded noise for the inputs of a transformers model that are no text."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch

from normdiag.errors import RunError
from normdiag.inputs.batch import Batch
from normdiag.inputs.input_requirements import InputRequirements
from normdiag.inputs.input_shapes import PatchGrid, find_example_shape, find_patch_grid
from normdiag.inputs.text_inputs import shift_right

_BATCH_SIZE = 2
_DECODER_LENGTH = 16
_COMPANIONS = {
    "past_values": ("past_time_features", "future_values", "future_time_features"),
    "input_ids": ("visual_feats", "visual_pos", "visual_embeds"),
}
"""Inputs that an input comes with, although they have defaults in forward's signature."""
_GRIDS = {
    "pixel_values": ("image_grid_thw", "grid_thw"),
    "pixel_values_videos": ("video_grid_thw",),
    "hidden_states": ("grid_thw",),
}


def build_synthetic_batch(requirements: InputRequirements, name: str, seed: int) -> Batch:
    """Noise for the input `name`, and token ids for a decoder where there is one.

    Raises RunError, naming the argument, where its shape cannot be derived from the model.
    """
    inputs: dict[str, Any] = generate_noise(
        requirements, name, requirements.parameters, _BATCH_SIZE, seed
    )
    if requirements.takes_decoder_ids:
        inputs["decoder_input_ids"] = _draw_decoder_ids(requirements, seed).to(inputs[name].device)
    if "use_cache" in requirements.parameters:
        inputs["use_cache"] = False
    batch = Batch(inputs=inputs, rows=tuple(range(_BATCH_SIZE)))
    return _add_required_inputs(requirements, batch, seed)


def add_companion_inputs(requirements: InputRequirements, batch: Batch, seed: int) -> Batch:
    """Add noise for what forward needs in addition to text, and for a second encoder (CLIP's).

    In a language model that reads images, they stand in for tokens of its text: text alone runs.
    """
    has_images = requirements.config_value("patch_size", "image_size") is not None
    is_in_text = requirements.config_value("image_token_id", "image_token_index") is not None
    batch = _add_required_inputs(requirements, batch, seed)
    companions = _draw_companions(requirements, "input_ids", batch, seed)
    batch = replace(batch, inputs=batch.inputs | companions)
    if "bbox" in requirements.parameters and "input_ids" in batch.inputs:
        boxes = _make_boxes(requirements, batch.inputs["input_ids"])
        batch = replace(batch, inputs=batch.inputs | {"bbox": boxes})
    name = "pixel_values"
    is_accepted = name in requirements.parameters and name not in batch.inputs
    if not has_images or is_in_text or not is_accepted:
        return batch
    images = generate_noise(requirements, name, requirements.parameters, len(batch.rows), seed)
    return replace(batch, inputs=images | batch.inputs)


def generate_noise(
    requirements: InputRequirements,
    name: str,
    parameters: Mapping[str, inspect.Parameter],
    batch_size: int,
    seed: int,
) -> dict[str, torch.Tensor]:
    """Noise for `name`, with its mask (all ones) or grid where `parameters` has one.

    Raises RunError, naming the argument, where its shape cannot be derived from the model.
    """
    grid = next((each for each in _GRIDS.get(name, ()) if each in parameters), None)
    patches = find_patch_grid(requirements)
    if grid is not None and patches is not None:
        return _draw_packed_patches(requirements, (name, grid), patches, batch_size, seed)
    if name == "pixel_values" and "spatial_shapes" in parameters and patches is not None:
        return _draw_patches(requirements, patches, batch_size, seed)
    example = find_example_shape(requirements, name)
    if example is None:
        raise unknown_shape_error(requirements, name)
    noise = {name: _draw_noise(requirements, example.shape, batch_size, seed)}
    if (mask := f"{name}_mask") in parameters:
        shape = (batch_size, example.shape[example.time_axis])
        noise[mask] = torch.ones(shape, dtype=torch.bool, device=requirements.device)
    if name == "past_values" and "past_observed_mask" in parameters:  # value by value
        noise["past_observed_mask"] = torch.ones_like(noise[name])
    if name == "pixel_values" and _is_required(parameters.get("image_sizes")):
        sizes = [example.shape[-2:]] * batch_size
        noise["image_sizes"] = torch.tensor(sizes, device=requirements.device)
    return noise


def unknown_shape_error(requirements: InputRequirements, name: str) -> RunError:
    """The error that names an input whose shape has to come from the user."""
    return RunError(
        f"{requirements.class_name} takes {name!r}, whose shape neither its configuration nor its "
        "weights state",
        f"pass all that forward needs, including {name!r}: --inputs FILE (a .safetensors or JSON "
        f"file whose keys are arguments of forward), in Python inputs={{{name!r}: tensor, ...}}",
    )


def _is_required(parameter: inspect.Parameter | None) -> bool:
    return parameter is not None and parameter.default is parameter.empty


def _add_required_inputs(requirements: InputRequirements, batch: Batch, seed: int) -> Batch:
    inputs = dict(batch.inputs)
    for name in list(inputs):
        inputs |= _draw_companions(requirements, name, batch, seed)
    for name in requirements.required_inputs:
        if name not in inputs:
            inputs |= generate_noise(
                requirements, name, requirements.parameters, len(batch.rows), seed
            )
    return replace(batch, inputs=inputs)


def _draw_companions(
    requirements: InputRequirements, name: str, batch: Batch, seed: int
) -> dict[str, torch.Tensor]:
    companions: dict[str, torch.Tensor] = {}
    for other in _COMPANIONS.get(name, ()):
        example = find_example_shape(requirements, other)
        is_accepted = other in requirements.parameters and other not in batch.inputs
        if is_accepted and example is not None:
            companions[other] = _draw_noise(requirements, example.shape, len(batch.rows), seed)
    return companions


def _draw_noise(
    requirements: InputRequirements, shape: tuple[int, ...], batch_size: int, seed: int
) -> torch.Tensor:
    noise = torch.randn((batch_size, *shape), generator=torch.Generator().manual_seed(seed))
    return noise.to(device=requirements.device, dtype=requirements.dtype)


def _draw_packed_patches(
    requirements: InputRequirements,
    names: tuple[str, str],
    patches: PatchGrid,
    batch_size: int,
    seed: int,
) -> dict[str, torch.Tensor]:
    """The patches of all images along one axis, and the grid of each image."""
    values = _draw_noise(requirements, (patches.width,), batch_size * patches.patch_count, seed)
    grids = torch.tensor([patches.grid] * batch_size, device=values.device)
    return dict(zip(names, (values, grids), strict=True))


def _draw_patches(
    requirements: InputRequirements, patches: PatchGrid, batch_size: int, seed: int
) -> dict[str, torch.Tensor]:
    """The patches of each image, a mask of all ones, and the grid of each image."""
    values = _draw_noise(requirements, (patches.patch_count, patches.width), batch_size, seed)
    return {
        "pixel_values": values,
        "pixel_attention_mask": torch.ones(
            batch_size, patches.patch_count, device=values.device
        ).long(),
        "spatial_shapes": torch.tensor([patches.grid[1:]] * batch_size, device=values.device),
    }


def _make_boxes(requirements: InputRequirements, ids: torch.Tensor) -> torch.Tensor:
    """The bounding box of each token, all at the origin: integers, or of the stated width."""
    width = requirements.config_value("dim_bbox")
    dtype = torch.long if width is None else requirements.dtype
    return torch.zeros(*ids.shape, width or 4, dtype=dtype, device=ids.device)


def _draw_decoder_ids(requirements: InputRequirements, seed: int) -> torch.Tensor:
    rows = requirements.config_value("vocab_size") or requirements.embedding_rows or 2
    longest = requirements.config_value("max_target_positions") or _DECODER_LENGTH
    shape = (_BATCH_SIZE, min(_DECODER_LENGTH, longest))
    ids = torch.randint(rows, shape, generator=torch.Generator().manual_seed(seed))
    return shift_right(ids, requirements)
