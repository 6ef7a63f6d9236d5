"""A norm replayed with its statistic in float16, where the model computes it in float16."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from normdiag.evidence.number_formats import NUMBER_FORMATS
from normdiag.evidence.replay import HalfStatistic
from normdiag.measure.passes.learned_values import LearnedValues
from normdiag.measure.sites.norm_inputs import norm_denominator
from normdiag.measure.sites.replay import apply_norm, relative_error
from normdiag.measure.sites.samples import NormSample
from normdiag.structure.algebraic_forms import DetectedNorm

HALF = NUMBER_FORMATS["float16"]


def replay_half_norm(
    norm: DetectedNorm, samples: Sequence[NormSample], learned: LearnedValues
) -> HalfStatistic | None:
    """Replay with the squares, and their sum or mean, rounded to float16.

    For a norm that adds its epsilon in float16 only, whose sums of squares pass the largest
    float16 or whose mean squares lie below its smallest normal number, where its step is constant.
    """
    pairs = [(s, s.output_rows) for s in samples if s.output_rows is not None]
    if norm.eps_dtype != HALF.name or norm.running_var is not None or not pairs:
        return None
    rows = torch.cat([_centre_rows(norm, s.input_rows) for s, _ in pairs])
    exact = rows.square()
    largest_sum, smallest_mean = float(exact.sum(-1).max()), float(exact.mean(-1).min())
    if largest_sum > HALF.largest:
        value, computed, mean_square = largest_sum, None, _sum_in_half
    elif 0 < smallest_mean < HALF.smallest_normal:
        smallest = rows[exact.mean(-1).argmin()][None]
        value, computed = smallest_mean, float(_average_in_half(smallest))
        mean_square = _average_in_half
    else:
        return None
    divisor = norm_denominator(norm, learned)

    def round_statistic(x: torch.Tensor) -> torch.Tensor:
        """The m2 that, with epsilon added exactly, gives the sum that float16 holds."""
        scaled = divisor.variance_scale * mean_square(x)
        if divisor.place != "inside":
            return scaled / divisor.variance_scale
        return (_round_to_half(scaled + divisor.eps) - divisor.eps) / divisor.variance_scale

    errors = [
        relative_error(expected, output)
        for s, output in pairs
        if (expected := apply_norm(norm, s.input_rows, learned, s.rows, round_statistic))
        is not None
    ]
    if not errors:
        return None
    return HalfStatistic(
        kind="square-underflow" if computed is not None else "sum-overflow",
        value=value,
        computed=computed,
        max_rel_error=max(errors),
    )


def _centre_rows(norm: DetectedNorm, rows: torch.Tensor) -> torch.Tensor:
    x = rows.detach().double().cpu()
    return x - x.mean(-1, keepdim=True) if norm.is_centred else x


def _round_to_half(x: torch.Tensor) -> torch.Tensor:
    return x.half().double()


def _sum_in_half(x: torch.Tensor) -> torch.Tensor:
    squares = _round_to_half(_round_to_half(x).square())
    return _round_to_half(squares.sum(-1, keepdim=True)) / x.shape[-1]


def _average_in_half(x: torch.Tensor) -> torch.Tensor:
    squares = _round_to_half(_round_to_half(x).square())
    return _round_to_half(squares.mean(-1, keepdim=True))
