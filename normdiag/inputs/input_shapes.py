"""The shape of one example of an input, from the model's configuration and first weight."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

from normdiag.inputs.requirements import first_weight, max_positions, config_value
from normdiag.loading.interface import LoadedModel

FRAMES = 64
_IMAGE_SIZE = 224
_FILM = 8
"""Frames of a film."""
_SECOND = 16_000
"""Samples of raw sound."""
_PATCHES = 4
"""Patches per side, after merging."""

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Example:
    """The shape of one example, without the batch, and which of its axes is time."""

    shape: Shape
    time: int = 0


def example_of(runnable: LoadedModel, name: str) -> Example | None:
    """The shape of what `name` takes; None where neither configuration nor weights tell."""
    tell = _TELLERS.get(name)
    return None if tell is None else tell(runnable)


@dataclass(frozen=True)
class Patches:
    """An image cut into patches, each a row: how many, of how many values, in what grid."""

    grid: tuple[int, int, int]
    """Time, height, width."""
    width: int

    @property
    def count(self) -> int:
        """Rows of one image."""
        return prod(self.grid)


def patches_of(runnable: LoadedModel) -> Patches | None:
    """The patches of the smallest square image that has several of them after merging."""
    config = runnable.config
    side = config_value(config, "patch_size")
    merged = config_value(config, "spatial_merge_size", "merge_kernel_size", "merge_size") or 1
    if not isinstance(side, int):
        return None
    edge = _PATCHES * (merged if isinstance(merged, int) else merged[0])
    channels = config_value(config, "in_channels", "num_channels", "in_chans") or 3
    depth = config_value(config, "temporal_patch_size") or 1
    return Patches((1, edge, edge), channels * depth * side**2)


def _image(runnable: LoadedModel) -> Example:
    """One image, or as many frames as a model that sees nothing but films states."""
    frames = getattr(runnable.config, "num_frames", None)
    return _film(runnable) if isinstance(frames, int) else Example(_picture(runnable))


def _film(runnable: LoadedModel) -> Example:
    frames = config_value(runnable.config, "num_frames", "frames_per_clip") or _FILM
    return Example((frames, *_picture(runnable)))


def _picture(runnable: LoadedModel) -> Shape:
    """Channels, height and width."""
    config = runnable.config
    size = config_value(config, "image_size", "img_size", "input_size", "crop_size", "anchor_image_size")
    size = size or _IMAGE_SIZE
    height, width = (size, size) if isinstance(size, int) else list(size)[:2]
    return (config_value(config, "num_channels", "in_channels", "in_chans") or 3, height, width)


def _features(runnable: LoadedModel) -> Example | None:
    """Frames of a spectrum.

    Whisper's convolution halves the time, so it wants twice its positions, channels first. Other
    models state the width of a frame, or their first weight takes it: a convolution over time,
    channels first; one over time and spectrum; a matrix or a gain per feature.
    """
    config = runnable.config
    positions = max_positions(runnable.model, config) or 8 * FRAMES
    frames = min(4 * FRAMES, positions // 2)
    mels, halves = config_value(config, "num_mel_bins"), config_value(config, "max_source_positions")
    if mels and halves:
        return Example((mels, 2 * halves), time=1)
    if (width := config_value(config, *_FRAME_WIDTHS)) is not None:
        return Example((frames, width))
    first = first_weight(runnable.model)
    rank = 0 if first is None or first.is_table else first.weight.ndim
    if first is not None and rank == 3:
        return Example((first.weight.shape[1], frames), time=1)
    if first is not None and rank in (1, 2):
        return Example((frames, first.weight.shape[-1]))
    return None if mels is None else Example((frames, mels))


_FRAME_WIDTHS = (
    "input_feat_per_channel",
    "feature_projection_input_dim",
    "input_feat_size",
    "input_dim",
)


def _samples(runnable: LoadedModel) -> Example | None:
    """As many samples as the strided convolutions need for a number of frames."""
    config = runnable.config
    kernels, strides = config_value(config, "conv_kernel"), config_value(config, "conv_stride")
    if isinstance(kernels, (list, tuple)) and isinstance(strides, (list, tuple)):
        length = FRAMES
        for kernel, stride in zip(reversed(kernels), reversed(strides), strict=True):
            length = (length - 1) * stride + kernel
        return Example((length,))
    if ratios := config_value(config, "upsampling_ratios"):  # a codec: down by them, and up again
        return Example((config_value(config, "audio_channels") or 1, FRAMES * prod(ratios)), time=1)
    frames, mels = config_value(config, "max_length"), config_value(config, "num_mel_bins")
    if frames and mels:
        return Example((frames, mels))
    first = first_weight(runnable.model)
    is_wave = first is not None and first.weight.ndim == 3 and first.weight.shape[1] == 1
    return Example((_SECOND,)) if is_wave else None


def _series(length: Callable[[Any], int | None]) -> Callable[[LoadedModel], Example | None]:
    """Values over time, of one series or of several channels."""

    def tell(runnable: LoadedModel) -> Example | None:
        channels = config_value(runnable.config, "num_input_channels", "input_size")
        steps = length(runnable.config)
        if steps is None:
            return None
        several = hasattr(runnable.config, "num_input_channels") or (channels or 1) > 1
        return Example((steps, channels or 1) if several else (steps,))

    return tell


def _times(length: Callable[[Any], int | None]) -> Callable[[LoadedModel], Example | None]:
    """Features of the points in time themselves."""

    def tell(runnable: LoadedModel) -> Example | None:
        steps, width = length(runnable.config), config_value(runnable.config, "num_time_features")
        return None if steps is None or width is None else Example((steps, width))

    return tell


def _past(config: Any) -> int | None:
    """The context, and before it as far as the lags reach back."""
    context = config_value(config, "context_length")
    return None if context is None else context + max(config_value(config, "lags_sequence") or [0])


def _future(config: Any) -> int | None:
    steps: int | None = config_value(config, "prediction_length")
    return steps


def _detected(width: str) -> Callable[[LoadedModel], Example | None]:
    """A few regions of an image that another model has found."""

    def tell(runnable: LoadedModel) -> Example | None:
        size = config_value(runnable.config, width)
        return None if size is None else Example((_PATCHES, size))

    return tell


_TELLERS: Mapping[str, Callable[[LoadedModel], Example | None]] = {
    "pixel_values": _image,
    "pixel_values_videos": _film,
    "input_features": _features,
    "audio_mel": _features,
    "input_values": _samples,
    "past_values": _series(_past),
    "past_time_features": _times(_past),
    "future_values": _series(_future),
    "future_time_features": _times(_future),
    "visual_feats": _detected("visual_feat_dim"),
    "visual_pos": _detected("visual_pos_dim"),
    "visual_embeds": _detected("visual_embedding_dim"),
}
