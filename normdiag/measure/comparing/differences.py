"""How far apart two models are on the same inputs, in float64, at sites that belong together."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

import numpy as np
import torch

from normdiag.evidence.differences import (
    AddDifference,
    Differences,
    RelativeDifference,
    VectorDifference,
)
from normdiag.measure.comparing.snapshot import Snapshot, SnapshotAdd

Pairs = Iterable[tuple[str, str]]
"""Ids of the first model and of the second."""
_SMALLEST = 1e-3
"""Elements below this share of the rms are measured against that: near 0 nothing is relative."""


def measure_differences(a: Snapshot, b: Snapshot, adds: Pairs, norms: Pairs) -> Differences:
    """Every pair of adds that has tokens of both models, every pair of gains and of biases."""
    norms = tuple(norms)
    compared = {
        first: _compare_adds(a.adds.get(first), b.adds.get(second)) for first, second in adds
    }
    return Differences(
        adds={name: apart for name, apart in compared.items() if apart is not None},
        gains=_compare_vectors(a.gains, b.gains, norms),
        biases=_compare_vectors(a.biases, b.biases, norms),
    )


def _compare_adds(a: SnapshotAdd | None, b: SnapshotAdd | None) -> AddDifference | None:
    if a is None or b is None or a.out.shape[-1] != b.out.shape[-1]:
        return None
    where = {place: row for row, place in enumerate(b.places)}
    both = [(row, where[place]) for row, place in enumerate(a.places) if place in where]
    if not both:
        return None
    mine, theirs = (torch.tensor(rows) for rows in zip(*both, strict=True))
    skip, branch, out = (
        compare_rows(x[mine].double(), y[theirs].double())
        for x, y in ((a.skip, b.skip), (a.branch, b.branch), (a.out, b.out))
    )
    return AddDifference(tokens=len(both), skip=skip, branch=branch, out=out)


def compare_rows(a: torch.Tensor, b: torch.Tensor) -> RelativeDifference:
    """Both (tokens, features) in float64."""
    error = _relative_errors(a, b)
    squares = torch.linalg.vecdot(a, a)
    factors = torch.where(squares > 0, torch.linalg.vecdot(a, b) / squares, 1.0)
    factor = _median_of_tensor(factors) if bool(factors.isfinite().all()) else math.nan
    left = _relative_errors(factor * a, b)
    return RelativeDifference(
        median=_median_of_tensor(error),
        max=float(error.max()),
        factor=factor,
        after_scaling=_median_of_tensor(left) if math.isfinite(factor) else math.inf,
    )


def _median_of_tensor(values: torch.Tensor) -> float:
    return float(np.median(values.numpy()))


def _relative_errors(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """||a - b|| / ||a|| per row; equal values, not finite ones too, differ by nothing."""
    same = (a == b) | (a.isnan() & b.isnan())
    difference = torch.where(same, 0.0, a - b)
    far = torch.linalg.vector_norm(difference, dim=-1)
    error = torch.where(far == 0, 0.0, far / torch.linalg.vector_norm(a, dim=-1))
    return error.nan_to_num(nan=math.inf, posinf=math.inf)


def _compare_vectors(
    a: Mapping[str, torch.Tensor], b: Mapping[str, torch.Tensor], pairs: Pairs
) -> dict[str, VectorDifference]:
    return {
        first: _compare_vector(a[first], b[second])
        for first, second in pairs
        if first in a and second in b and a[first].shape == b[second].shape
    }


def _compare_vector(a: torch.Tensor, b: torch.Tensor) -> VectorDifference:
    least = _SMALLEST * float(a[a.isfinite()].square().mean().sqrt().nan_to_num())
    same = (a == b) | (a.isnan() & b.isnan())
    size = torch.maximum(a.abs(), b.abs()).clamp_min(least)
    relative = torch.where(same, 0.0, (a - b).abs() / size).nan_to_num(nan=math.inf)
    channel = int(relative.argmax())
    return VectorDifference(
        max_relative=float(relative[channel]),
        channel=channel,
        a=float(a[channel]),
        b=float(b[channel]),
    )
