"""Five float64 sums of a tensor that tell its values, and the order that they stand in."""

from __future__ import annotations

import numpy as np
import torch

from normdiag.evidence.weights import TensorFingerprint

_CHUNK = 1 << 20
"""Elements that are turned into float64 at a time."""


def position_weights(count: int, start: int = 0) -> torch.Tensor:
    """Numbers in [-1, 1) that depend on the position alone (splitmix64): equal on any machine."""
    with np.errstate(over="ignore"):
        x = (np.arange(start, start + count, dtype=np.uint64) + np.uint64(1)) * np.uint64(
            0x9E3779B97F4A7C15
        )
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        x = x ^ (x >> np.uint64(31))
    return torch.from_numpy((x >> np.uint64(11)).astype(np.float64) / 2**52 - 1.0)


def fingerprint_tensor(tensor: torch.Tensor, *, is_buffer: bool = False) -> TensorFingerprint:
    """Compute the sums in one pass, with rows along the first axis and columns along the rest."""
    rows = tensor.shape[0] if tensor.dim() else 1
    matrix = tensor.detach().reshape(rows, -1)
    columns = matrix.shape[1]
    sums = torch.zeros(5, dtype=torch.float64)
    width = min(columns, _CHUNK)
    height = max(1, _CHUNK // width)
    row_weights = position_weights(rows)
    for left in range(0, columns, width):
        of_columns = position_weights(min(width, columns - left), left)
        for top in range(0, rows, height):
            part = matrix[top : top + height, left : left + width].cpu().double()
            of_rows = row_weights[top : top + height]
            totals, weighted = part.sum(1), part @ of_columns
            sums += torch.stack(
                (
                    totals.sum(),
                    part.square().sum(),
                    of_rows @ totals,
                    weighted.sum(),
                    of_rows @ weighted,
                )
            )
    total, squares, by_row, by_column, by_cell = sums.tolist()
    return TensorFingerprint(
        shape=tuple(tensor.shape),
        sum=total,
        squares=squares,
        by_row=by_row,
        by_column=by_column,
        by_cell=by_cell,
        is_buffer=is_buffer,
    )
