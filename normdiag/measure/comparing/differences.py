"""How far apart two models are on the same inputs, in float64, at sites that belong together."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import torch

from normdiag.evidence.differences import (
    AddDifference,
    Differences,
    NormDifference,
    RelativeDifference,
    VectorDifference,
)
from normdiag.measure.comparing.snapshot import Snapshot, SnapshotAdd, SnapshotNorm
from normdiag.measure.passes.model_outputs import OutputTensors

Pairs = Iterable[tuple[str, str]]
"""Ids of the first model and of the second."""
_SMALLEST = 1e-3
"""Elements below this share of the rms are measured against that: near 0 nothing is relative."""


def measure_differences(
    a: Snapshot, b: Snapshot, adds: Pairs, norms: Pairs, *, is_shared: bool = True
) -> Differences:
    """Every pair of adds that has tokens of both models, every pair of gains and of biases.

    Where both ran on the same inputs (`is_shared`), also norms and outputs.
    """
    norms = tuple(norms)
    compared = {
        first: _compare_adds(a.adds.get(first), b.adds.get(second)) for first, second in adds
    }
    return Differences(
        adds={name: apart for name, apart in compared.items() if apart is not None},
        gains=_compare_vectors(a.gains, b.gains, norms),
        biases=_compare_vectors(a.biases, b.biases, norms),
        norms=_compare_norms(a.norms, b.norms, norms if is_shared else ()),
        outputs=_compare_outputs(a.outputs, b.outputs) if is_shared else {},
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


def _compare_norms(
    a: Mapping[str, SnapshotNorm], b: Mapping[str, SnapshotNorm], pairs: Pairs
) -> dict[str, NormDifference]:
    """Norms of one width that have sampled rows in common."""
    differences = {}
    for first, second in pairs:
        x, y = a.get(first), b.get(second)
        if x is None or y is None or x.input_rows.shape[-1] != y.input_rows.shape[-1]:
            continue
        both = [(row, y.rows[place]) for place, row in x.rows.items() if place in y.rows]
        if both:
            mine, theirs = (torch.tensor(rows) for rows in zip(*both, strict=True))
            differences[first] = NormDifference(
                input=compare_rows(x.input_rows[mine].double(), y.input_rows[theirs].double()),
                output=compare_rows(x.output_rows[mine].double(), y.output_rows[theirs].double()),
            )
    return differences


def _compare_outputs(
    a: Sequence[OutputTensors], b: Sequence[OutputTensors]
) -> dict[str, RelativeDifference]:
    """Outputs of one name and shape; a single output is compared whatever its name."""
    if len(a) != len(b) or not a:
        return {}
    names = {name: name for name in a[0] if name in b[0]}
    if not names and len(a[0]) == len(b[0]) == 1:
        names = {next(iter(a[0])): next(iter(b[0]))}
    differences = {}
    for first, second in names.items():
        pairs = [(x.get(first), y.get(second)) for x, y in zip(a, b, strict=True)]
        rows = [(x, y) for x, y in pairs if x is not None and y is not None]
        if len(rows) == len(pairs) and all(x.shape == y.shape for x, y in rows):
            mine, theirs = (
                torch.cat([each.double() for each in side]) for side in zip(*rows, strict=True)
            )
            differences[first] = compare_rows(mine, theirs)
    return differences


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
