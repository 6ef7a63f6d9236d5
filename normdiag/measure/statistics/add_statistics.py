"""Statistics per token of one residual add in one pass, in float64 on the device."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from normdiag.measure.statistics.extremes import OperandExtremes, measure_extremes
from normdiag.measure.statistics.rows import Tokens, chunk_size, chunk_starts
from normdiag.measure.statistics.slab import Slab


@dataclass(slots=True)
class AddTokenStatistics:
    """One pass of one add. Vectors over all tokens, padding included."""

    skip_square: torch.Tensor
    branch_square: torch.Tensor
    out_square: torch.Tensor
    skip_branch: torch.Tensor
    """<x, u>."""
    skip_out: torch.Tensor
    """<x, y>."""
    orthogonal_norm: torch.Tensor
    """||y - (<x, y> / <x, x>) x||: the part of y across x, from which small angles are read."""
    max_abs: torch.Tensor
    max_channel: torch.Tensor
    kurtosis: torch.Tensor
    median_abs: torch.Tensor
    """Of |y| over channels."""
    pair_cosine: torch.Tensor
    """Sum of cos(y_i, y_j) over pairs of valid tokens of one sequence."""
    pairs: float
    features: int
    extremes: OperandExtremes


def compute_add_statistics(
    skip: torch.Tensor, branch: torch.Tensor, out: torch.Tensor, tokens: Tokens, slab: Slab
) -> AddTokenStatistics:
    """Compute the statistics of y = x + u, each (tokens, features)."""
    n, features = out.shape
    numbers = (slab.empty_tensor((n,), torch.float64, out.device) for _ in range(9))
    xx, uu, yy, xu, xy, orthogonal, kurtosis, max_abs, median_abs = numbers
    max_channel = slab.empty_tensor((n,), torch.int64, out.device)
    step = chunk_size(features)
    directions = _SequenceDirections(tokens, n, features, out.device)
    for start in chunk_starts(n, features):
        part = slice(start, start + step)
        x, u, y = skip[part].double(), branch[part].double(), out[part].double()
        xx[part] = torch.linalg.vecdot(x, x)
        uu[part] = torch.linalg.vecdot(u, u)
        xu[part] = torch.linalg.vecdot(x, u)
        xy[part] = torch.linalg.vecdot(x, y)
        yy[part] = torch.linalg.vecdot(y, y)
        orthogonal[part] = _orthogonal_norm(x, y, xy[part] / xx[part])
        kurtosis[part] = _channel_kurtosis(y)
        sizes = out[part].abs()
        top = sizes.max(-1)
        max_abs[part], max_channel[part] = top.values.double(), top.indices
        median_abs[part] = channel_median(sizes)
        directions.add_chunk(start, y, yy[part])
    pair_cosine, pairs = directions.pair_cosines()
    return AddTokenStatistics(
        xx, uu, yy, xu, xy, orthogonal, max_abs, max_channel, kurtosis, median_abs,
        slab.store_copy(pair_cosine), pairs, features,
        measure_extremes((skip, branch, out), yy, tokens.valid, slab),
    )  # fmt: skip


def _orthogonal_norm(x: torch.Tensor, y: torch.Tensor, along: torch.Tensor) -> torch.Tensor:
    """||y - along x||. An arccos of the cosine would lose half of the digits of a small angle."""
    rest = y - along[:, None] * x
    norm: torch.Tensor = torch.linalg.vecdot(rest, rest).sqrt_()
    return norm


def _channel_kurtosis(y: torch.Tensor) -> torch.Tensor:
    """E(y - m)^4 / (E(y - m)^2)^2 over channels."""
    squares = (y - y.mean(-1, keepdim=True)).square_()
    variance = squares.mean(-1)
    fourth: torch.Tensor = torch.linalg.vecdot(squares, squares) / y.shape[-1]
    return fourth / (variance * variance)


def channel_median(sizes: torch.Tensor) -> torch.Tensor:
    """The exact median of every row, interpolated as numpy's, without a full sort on the CPU."""
    features = sizes.shape[-1]
    middle = ((features - 1) // 2, features // 2)
    wide = sizes.float() if sizes.dtype in (torch.float16, torch.bfloat16) else sizes
    if wide.device.type == "cpu":
        # partitioning at both indices at once takes five times as long
        parted = np.partition(wide.numpy(), middle[0], axis=-1)
        low, high = parted[:, middle[0]], parted[:, middle[1] :].min(-1)
        return torch.from_numpy((low.astype(np.float64) + high) / 2)
    ordered = wide.sort(-1).values
    return (ordered[:, middle[0]].double() + ordered[:, middle[1]].double()) / 2


class _SequenceDirections:
    """Sum of y/||y|| over the tokens of each sequence: the mean cosine of all pairs in O(n H)."""

    def __init__(self, tokens: Tokens, n: int, features: int, device: torch.device) -> None:
        self._defined = tokens.rows_per_token == 1
        self._tokens = tokens
        rows = torch.arange(n, device=device)
        if tokens.order == "time":
            self._sequence = rows % tokens.sequences
        else:
            self._sequence = rows // max(tokens.positions, 1)
        self._is_valid = torch.ones(n, dtype=torch.bool, device=device)
        if tokens.valid is not None:
            self._is_valid[:] = False
            self._is_valid[tokens.valid] = True
        size = (tokens.sequences, features) if self._defined else (0, features)
        self._sums = torch.zeros(size, dtype=torch.float64, device=device)
        self._counts = torch.zeros(size[0], dtype=torch.float64, device=device)

    def add_chunk(self, start: int, y: torch.Tensor, yy: torch.Tensor) -> None:
        if not self._defined:
            return
        part = slice(start, start + y.shape[0])
        usable = self._is_valid[part] & (yy > 0)
        unit = torch.where(usable[:, None], y / yy.sqrt()[:, None], 0.0)
        sequence = self._sequence[part]
        if self._tokens.sequences == 1:
            self._sums[0] += unit.sum(0)
        else:
            self._sums.index_add_(0, sequence, unit)
        self._counts.index_add_(0, sequence, usable.double())

    def pair_cosines(self) -> tuple[torch.Tensor, float]:
        """Sum of cosines over unordered pairs, and how many pairs there are."""
        totals = torch.linalg.vecdot(self._sums, self._sums) - self._counts
        n = self._counts
        return totals.sum() / 2, float((n * (n - 1)).sum() / 2)
