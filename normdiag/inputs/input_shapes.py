"""The shape of one example of an input, from the model's configuration and first weight."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod

from normdiag.inputs.input_requirements import InputRequirements

FRAMES = 64
_IMAGE_SIZE = 224
_VIDEO_FRAMES = 8
_WAVEFORM_SAMPLES = 16_000
_PATCHES = 4
"""Patches per side, after merging."""

Shape = tuple[int, ...]


@dataclass(frozen=True)
class ExampleShape:
    """The shape of one example, without the batch axis, and which of its axes is time."""

    shape: Shape
    time_axis: int = 0


def find_example_shape(requirements: InputRequirements, name: str) -> ExampleShape | None:
    """The shape of what `name` takes; None where neither configuration nor weights state it."""
    derive_shape = _SHAPES.get(name)
    return None if derive_shape is None else derive_shape(requirements)


@dataclass(frozen=True)
class PatchGrid:
    """An image cut into patches of `width` values each."""

    grid: tuple[int, int, int]
    """Time, height, width."""
    width: int

    @property
    def patch_count(self) -> int:
        """Patches of one image."""
        return prod(self.grid)


def find_patch_grid(requirements: InputRequirements) -> PatchGrid | None:
    """The patches of the smallest square image that has several of them after merging."""
    side = requirements.config_value("patch_size")
    merged = requirements.config_value("spatial_merge_size", "merge_kernel_size", "merge_size") or 1
    if not isinstance(side, int):
        return None
    edge = _PATCHES * (merged if isinstance(merged, int) else merged[0])
    channels = requirements.config_value("in_channels", "num_channels", "in_chans") or 3
    depth = requirements.config_value("temporal_patch_size") or 1
    return PatchGrid((1, edge, edge), channels * depth * side**2)


def _image_shape(requirements: InputRequirements) -> ExampleShape:
    """One image, or the stated number of frames of a model that reads videos only."""
    frames = getattr(requirements.config, "num_frames", None)
    return (
        _video_shape(requirements)
        if isinstance(frames, int)
        else ExampleShape(_frame_shape(requirements))
    )


def _video_shape(requirements: InputRequirements) -> ExampleShape:
    frames = requirements.config_value("num_frames", "frames_per_clip") or _VIDEO_FRAMES
    return ExampleShape((frames, *_frame_shape(requirements)))


def _frame_shape(requirements: InputRequirements) -> Shape:
    """Channels, height and width."""
    size = requirements.config_value(
        "image_size", "img_size", "input_size", "crop_size", "anchor_image_size"
    )
    size = size or _IMAGE_SIZE
    height, width = (size, size) if isinstance(size, int) else list(size)[:2]
    return (
        requirements.config_value("num_channels", "in_channels", "in_chans") or 3,
        height,
        width,
    )


def _spectrogram_shape(requirements: InputRequirements) -> ExampleShape | None:
    """Frames of a spectrum.

    Whisper's convolution halves the time, so it wants twice its positions, channels first. Other
    models state the width of a frame, or their first weight takes it: a convolution over time,
    channels first; one over time and spectrum; a matrix or a gain per feature.
    """
    positions = requirements.max_positions or 8 * FRAMES
    frames = min(4 * FRAMES, positions // 2)
    mels, halves = (
        requirements.config_value("num_mel_bins"),
        requirements.config_value("max_source_positions"),
    )
    if mels and halves:
        return ExampleShape((mels, 2 * halves), time_axis=1)
    if (width := requirements.config_value(*_FRAME_WIDTHS)) is not None:
        return ExampleShape((frames, width))
    first = requirements.first_weight
    rank = 0 if first is None or first.is_embedding else first.weight.ndim
    if first is not None and rank == 3:
        return ExampleShape((first.weight.shape[1], frames), time_axis=1)
    if first is not None and rank in (1, 2):
        return ExampleShape((frames, first.weight.shape[-1]))
    return None if mels is None else ExampleShape((frames, mels))


_FRAME_WIDTHS = (
    "input_feat_per_channel",
    "feature_projection_input_dim",
    "input_feat_size",
    "input_dim",
)


def _waveform_shape(requirements: InputRequirements) -> ExampleShape | None:
    """As many samples as the strided convolutions need for a number of frames."""
    kernels, strides = (
        requirements.config_value("conv_kernel"),
        requirements.config_value("conv_stride"),
    )
    if isinstance(kernels, (list, tuple)) and isinstance(strides, (list, tuple)):
        length = FRAMES
        for kernel, stride in zip(reversed(kernels), reversed(strides), strict=True):
            length = (length - 1) * stride + kernel
        return ExampleShape((length,))
    if ratios := requirements.config_value(
        "upsampling_ratios"
    ):  # a codec: down by them, and up again
        return ExampleShape(
            (requirements.config_value("audio_channels") or 1, FRAMES * prod(ratios)), time_axis=1
        )
    frames, mels = (
        requirements.config_value("max_length"),
        requirements.config_value("num_mel_bins"),
    )
    if frames and mels:
        return ExampleShape((frames, mels))
    first = requirements.first_weight
    is_wave = first is not None and first.weight.ndim == 3 and first.weight.shape[1] == 1
    return ExampleShape((_WAVEFORM_SAMPLES,)) if is_wave else None


def _make_series_shape(
    length: Callable[[InputRequirements], int | None],
) -> Callable[[InputRequirements], ExampleShape | None]:
    """Values over time, of one series or of several channels."""

    def derive_series_shape(requirements: InputRequirements) -> ExampleShape | None:
        channels = requirements.config_value("num_input_channels", "input_size")
        steps = length(requirements)
        if steps is None:
            return None
        several = hasattr(requirements.config, "num_input_channels") or (channels or 1) > 1
        return ExampleShape((steps, channels or 1) if several else (steps,))

    return derive_series_shape


def _make_time_feature_shape(
    length: Callable[[InputRequirements], int | None],
) -> Callable[[InputRequirements], ExampleShape | None]:
    """Time features, such as the age of each time step."""

    def derive_time_feature_shape(requirements: InputRequirements) -> ExampleShape | None:
        steps, width = length(requirements), requirements.config_value("num_time_features")
        return None if steps is None or width is None else ExampleShape((steps, width))

    return derive_time_feature_shape


def _context_length(requirements: InputRequirements) -> int | None:
    """The length of the context and of the lags before it."""
    context = requirements.config_value("context_length")
    return (
        None
        if context is None
        else context + max(requirements.config_value("lags_sequence") or [0])
    )


def _prediction_length(requirements: InputRequirements) -> int | None:
    steps: int | None = requirements.config_value("prediction_length")
    return steps


def _make_region_shape(width: str) -> Callable[[InputRequirements], ExampleShape | None]:
    """Features of a few regions of an image, the output of an object detector."""

    def derive_region_shape(requirements: InputRequirements) -> ExampleShape | None:
        size = requirements.config_value(width)
        return None if size is None else ExampleShape((_PATCHES, size))

    return derive_region_shape


_SHAPES: Mapping[str, Callable[[InputRequirements], ExampleShape | None]] = {
    "pixel_values": _image_shape,
    "pixel_values_videos": _video_shape,
    "input_features": _spectrogram_shape,
    "audio_mel": _spectrogram_shape,
    "input_values": _waveform_shape,
    "past_values": _make_series_shape(_context_length),
    "past_time_features": _make_time_feature_shape(_context_length),
    "future_values": _make_series_shape(_prediction_length),
    "future_time_features": _make_time_feature_shape(_prediction_length),
    "visual_feats": _make_region_shape("visual_feat_dim"),
    "visual_pos": _make_region_shape("visual_pos_dim"),
    "visual_embeds": _make_region_shape("visual_embedding_dim"),
}
