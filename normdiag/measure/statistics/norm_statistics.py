"""Statistics per row of one norm's input in one pass, in float64 on the device."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from normdiag.measure.statistics.rows import chunk_size, chunk_starts
from normdiag.measure.statistics.slab import Slab


@dataclass(slots=True)
class NormRowStatistics:
    """One pass of one norm. Per-row vectors over all rows, padding included."""

    mean: torch.Tensor
    m2: torch.Tensor
    """Mean of the squares, centred where the norm centres."""
    square_sum: torch.Tensor
    """||x||^2."""
    channel_max: torch.Tensor
    """max over valid rows of |x|, per channel."""
    offset: torch.Tensor
    """Sum over valid rows of x, per channel."""
    vectors: int
    """How many vectors over channels `offset` is a sum of."""

    def set_channel_statistics(self, vectors: torch.Tensor) -> None:
        """Replace the statistics per channel by those of (vectors, channels).

        In the rows of a batch or a group norm a column is no channel.
        """
        self.channel_max = vectors.abs().amax(0).double()
        self.offset = vectors.sum(0, dtype=torch.float64)
        self.vectors = vectors.shape[0]


def compute_norm_statistics(
    rows: torch.Tensor, is_centred: bool, valid: torch.Tensor | None, slab: Slab
) -> NormRowStatistics:
    """Compute the statistics of `rows` (tokens, features), up to float64 summation errors."""
    n, features = rows.shape
    step = chunk_size(features)
    mean, square, m2 = (slab.empty_tensor((n,), torch.float64, rows.device) for _ in range(3))
    offset = slab.empty_tensor((features,), torch.float64, rows.device).zero_()
    is_valid = None
    if valid is not None:
        is_valid = torch.zeros(n, dtype=torch.float64, device=rows.device)
        is_valid[valid] = 1.0
    for start in chunk_starts(n, features):
        part = slice(start, start + step)
        x = rows[part].double()
        mean[part] = x.mean(-1)
        square[part] = torch.linalg.vecdot(x, x)
        offset += x.sum(0) if is_valid is None else _masked_sum(is_valid[part], x)
        if is_centred:
            x = x - mean[part, None]
            m2[part] = torch.linalg.vecdot(x, x) / features
        else:
            m2[part] = square[part] / features
    valid_rows = rows if valid is None else rows[valid]
    channel_max = slab.empty_tensor((features,), torch.float64, rows.device).zero_()
    if valid_rows.shape[0]:
        channel_max.copy_(valid_rows.abs().amax(0))
    return NormRowStatistics(mean, m2, square, channel_max, offset, valid_rows.shape[0])


def _masked_sum(is_valid: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    return torch.where(is_valid[:, None] > 0, x, 0.0).sum(0)
