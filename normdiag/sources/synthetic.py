"""Seeded inputs for transformers models of other kinds than text, from the model's own facts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch

from normdiag.errors import RunError
from normdiag.sources.batch import Batch
from normdiag.sources.interface import Runnable
from normdiag.sources.model_facts import (
    dtype_and_device,
    embedding_rows,
    forward_parameters,
    needed_inputs,
    setting,
)
from normdiag.sources.text_probe import shifted

_BATCH = 2
_FRAMES = 64
_IMAGE_SIZE = 224
_DECODER_LENGTH = 16
_FEATURES = ("input_feat_per_channel", "feature_projection_input_dim", "num_mel_bins", "input_dim")


def synthetic(runnable: Runnable, name: str, seed: int) -> Batch:
    """Noise for the input `name`, with ids for a decoder beside it where there is one.

    Raises RunError, naming the argument, where its shape cannot be told from the configuration.
    """
    taken = forward_parameters(runnable.model)
    inputs: dict[str, Any] = {name: _noise(runnable, name, _BATCH, seed)}
    if "decoder_input_ids" in taken and getattr(runnable.config, "is_encoder_decoder", False):
        inputs["decoder_input_ids"] = _decoder_ids(runnable, seed).to(inputs[name].device)
    if "use_cache" in taken:
        inputs["use_cache"] = False
    return _with_needed(runnable, Batch(inputs=inputs, rows=tuple(range(_BATCH))), seed)


def beside_text(runnable: Runnable, batch: Batch, seed: int) -> Batch:
    """`batch` with noise for what forward needs beside text, and for a second tower (CLIP's).

    A language model that reads images stands images in for tokens of its text, so text alone runs.
    """
    config = runnable.config
    towers = all(hasattr(config, part) for part in ("text_config", "vision_config"))
    in_text = setting(config, "image_token_id", "image_token_index") is not None
    batch = _with_needed(runnable, batch, seed)
    name = "pixel_values"
    if not towers or in_text or name not in forward_parameters(runnable.model):
        return batch
    images = _noise(runnable, name, len(batch.rows), seed)
    return replace(batch, inputs={name: images} | batch.inputs)


def _with_needed(runnable: Runnable, batch: Batch, seed: int) -> Batch:
    missing = [name for name in needed_inputs(runnable.model) if name not in batch.inputs]
    noise = {name: _noise(runnable, name, len(batch.rows), seed) for name in missing}
    return replace(batch, inputs=batch.inputs | noise)


def _noise(runnable: Runnable, name: str, rows: int, seed: int) -> torch.Tensor:
    shape = _SHAPES[name](runnable.config) if name in _SHAPES else None
    if shape is None:
        raise cannot_guess(runnable, name)
    dtype, device = dtype_and_device(runnable.model)
    generator = torch.Generator().manual_seed(seed)
    return torch.randn((rows, *shape), generator=generator).to(device=device, dtype=dtype)


def cannot_guess(runnable: Runnable, name: str) -> RunError:
    """The error that names the input that has to be given, and how."""
    return RunError(
        f"{runnable.class_name} takes {name!r}, and nothing says what shape it has",
        f"give all that forward needs, {name!r} among it: --inputs FILE (a .safetensors or JSON "
        f"file whose keys are arguments of forward), in Python inputs={{{name!r}: tensor, ...}}",
    )


def _image(config: Any) -> tuple[int, ...]:
    size = setting(config, "image_size", "img_size") or _IMAGE_SIZE
    height, width = (size, size) if isinstance(size, int) else list(size)[:2]
    return setting(config, "num_channels", "in_channels", "in_chans") or 3, height, width


def _features(config: Any) -> tuple[int, ...] | None:
    """Whisper's convolution halves the time, so it wants twice its positions, channels first."""
    mels, positions = setting(config, "num_mel_bins"), setting(config, "max_source_positions")
    if mels and positions:
        return mels, 2 * positions
    width = setting(config, *_FEATURES)
    return None if width is None else (4 * _FRAMES, width)


def _samples(config: Any) -> tuple[int, ...] | None:
    """As many samples as the strided convolutions need for a number of frames."""
    kernels, strides = setting(config, "conv_kernel"), setting(config, "conv_stride")
    if isinstance(kernels, (list, tuple)) and isinstance(strides, (list, tuple)):
        length = _FRAMES
        for kernel, stride in zip(reversed(kernels), reversed(strides), strict=True):
            length = (length - 1) * stride + kernel
        return (length,)
    frames, mels = setting(config, "max_length"), setting(config, "num_mel_bins")
    return (frames, mels) if frames and mels else None


# Of one example, without the batch.
_SHAPES: dict[str, Callable[[Any], tuple[int, ...] | None]] = {
    "pixel_values": _image,
    "input_features": _features,
    "input_values": _samples,
}


def _decoder_ids(runnable: Runnable, seed: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    rows = setting(runnable.config, "vocab_size") or embedding_rows(runnable.model) or 2
    longest = setting(runnable.config, "max_target_positions") or _DECODER_LENGTH
    shape = (_BATCH, min(_DECODER_LENGTH, longest))
    return shifted(torch.randint(rows, shape, generator=generator), runnable.config)
