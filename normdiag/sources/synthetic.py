"""Seeded inputs for transformers models of other kinds than text, from the model's own facts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from normdiag.errors import RunError
from normdiag.sources.batch import Batch
from normdiag.sources.interface import Runnable
from normdiag.sources.model_facts import (
    dtype_and_device,
    embedding_rows,
    forward_parameters,
    setting,
)
from normdiag.sources.text_probe import shifted

_BATCH = 2
_FRAMES = 64
_IMAGE_SIZE = 224
_DECODER_LENGTH = 16


def synthetic(runnable: Runnable, name: str, seed: int) -> Batch:
    """Noise for the input `name`, with ids for a decoder beside it where there is one.

    Raises RunError, naming the argument, where its shape cannot be told from the configuration.
    """
    shape = _SHAPES[name](runnable.config) if name in _SHAPES else None
    if shape is None:
        raise cannot_guess(runnable, name)
    dtype, device = dtype_and_device(runnable.model)
    generator = torch.Generator().manual_seed(seed)
    noise = torch.randn(shape, generator=generator).to(device=device, dtype=dtype)
    taken = forward_parameters(runnable.model)
    inputs: dict[str, Any] = {name: noise}
    if "decoder_input_ids" in taken and getattr(runnable.config, "is_encoder_decoder", False):
        inputs["decoder_input_ids"] = _decoder_ids(runnable, generator).to(device)
    if "use_cache" in taken:
        inputs["use_cache"] = False
    return Batch(inputs=inputs, rows=tuple(range(_BATCH)))


def images_beside_text(runnable: Runnable, batch: Batch, seed: int) -> Batch:
    """`batch` with an image per text, for two towers that both must run (CLIP and its kin).

    A language model that reads images stands images in for tokens of its text, so text alone runs.
    """
    config = runnable.config
    towers = all(hasattr(config, part) for part in ("text_config", "vision_config"))
    in_text = setting(config, "image_token_id", "image_token_index") is not None
    if not towers or in_text or "pixel_values" not in forward_parameters(runnable.model):
        return batch
    images = synthetic(runnable, "pixel_values", seed).inputs["pixel_values"]
    repeated = images[[row % _BATCH for row in range(len(batch.rows))]]
    return Batch(
        inputs=batch.inputs | {"pixel_values": repeated},
        rows=batch.rows,
        texts=batch.texts,
        ids=batch.ids,
        tokens=batch.tokens,
        special=batch.special,
    )


def cannot_guess(runnable: Runnable, name: str) -> RunError:
    """The error that names the input that has to be given, and how."""
    return RunError(
        f"{runnable.class_name} takes {name!r}, and nothing says what shape it has",
        f"give it: --inputs FILE (a .safetensors or JSON file with the key {name!r}), in Python "
        f"inputs={{{name!r}: tensor}}",
    )


def _image(config: Any) -> tuple[int, ...]:
    size = setting(config, "image_size", "img_size") or _IMAGE_SIZE
    height, width = (size, size) if isinstance(size, int) else list(size)[:2]
    return _BATCH, setting(config, "num_channels", "in_channels", "in_chans") or 3, height, width


def _features(config: Any) -> tuple[int, ...] | None:
    """Whisper's convolution halves the time, so it wants twice its positions, channels first."""
    mels, positions = setting(config, "num_mel_bins"), setting(config, "max_source_positions")
    if mels and positions:
        return _BATCH, mels, 2 * positions
    width = setting(config, "input_feat_per_channel", "feature_projection_input_dim")
    return None if width is None else (_BATCH, 4 * _FRAMES, width)


def _samples(config: Any) -> tuple[int, ...] | None:
    """As many samples as the strided convolutions need for a number of frames."""
    kernels, strides = setting(config, "conv_kernel"), setting(config, "conv_stride")
    if isinstance(kernels, (list, tuple)) and isinstance(strides, (list, tuple)):
        length = _FRAMES
        for kernel, stride in zip(reversed(kernels), reversed(strides), strict=True):
            length = (length - 1) * stride + kernel
        return _BATCH, length
    frames, mels = setting(config, "max_length"), setting(config, "num_mel_bins")
    return (_BATCH, frames, mels) if frames and mels else None


_SHAPES: dict[str, Callable[[Any], tuple[int, ...] | None]] = {
    "pixel_values": _image,
    "input_features": _features,
    "input_values": _samples,
}


def _decoder_ids(runnable: Runnable, generator: torch.Generator) -> torch.Tensor:
    rows = setting(runnable.config, "vocab_size") or embedding_rows(runnable.model) or 2
    longest = setting(runnable.config, "max_target_positions") or _DECODER_LENGTH
    shape = (_BATCH, min(_DECODER_LENGTH, longest))
    return shifted(torch.randint(rows, shape, generator=generator), runnable.config)
