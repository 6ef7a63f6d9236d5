"""Statistics of the logits of one attention, head by head and over blocks of queries."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

BLOCK_ELEMENTS = 1 << 22
"""Logits that are held at a time."""
UNDERFLOW = 104.0
"""exp(-104) is 0 in float32, whose smallest number is exp(-103.3)."""


@dataclass(frozen=True, slots=True)
class LogitStatistics:
    """The largest |logit| over pairs in use, its place, and the largest weight of each row."""

    max_abs: float
    value: float
    """That logit with its sign."""
    place: tuple[int, int, int, int]
    """Sequence, head, query, key."""
    head_max: tuple[float, ...]
    weights: torch.Tensor
    """Largest weight per query row that reads more than one key."""


@dataclass(frozen=True, slots=True)
class LogitSource:
    """Logits that are computed block by block."""

    sequences: int
    heads: int
    queries: int
    keys: int
    compute: Callable[[int, slice], torch.Tensor]
    """Head and queries -> (sequences, queries, keys)."""


def summarise_logits(source: LogitSource, valid: torch.Tensor | None) -> LogitStatistics | None:
    """Statistics of the rows `valid` (sequences, queries), None: of all; None without a pair."""
    step = max(1, BLOCK_ELEMENTS // max(1, source.sequences * source.keys))
    head_max, weights = [], []
    largest, signed, place = -1.0, 0.0, (0, 0, 0, 0)
    for head in range(source.heads):
        peak = 0.0
        for start in range(0, source.queries, step):
            block = source.compute(head, slice(start, start + step)).float()
            in_use, weight = _read_rows(
                block, None if valid is None else valid[:, start:][:, :step]
            )
            value, index = in_use.flatten().max(0)
            peak = max(peak, float(value))
            weights.append(weight)
            if float(value) > largest:
                sequence, query, key = _unravel_index(int(index), block.shape)
                largest, signed = float(value), float(block.flatten()[index])
                place = (sequence, head, start + query, key)
        head_max.append(peak)
    if largest < 0:
        return None
    return LogitStatistics(largest, signed, place, tuple(head_max), torch.cat(weights))


def _read_rows(
    block: torch.Tensor, valid: torch.Tensor | None
) -> tuple[torch.Tensor, torch.Tensor]:
    """|logit| with -1 where a pair is not in use, and the largest weight of rows of several."""
    lowest = torch.finfo(torch.float32).min / 2
    block = block.masked_fill(block < lowest, -torch.inf)
    top = block.amax(-1, keepdim=True)
    used = (block >= top - UNDERFLOW) & (block > -torch.inf)
    if valid is not None:
        used &= valid[..., None]
    several = ((block > -torch.inf).sum(-1) > 1) & used.any(-1)
    weight = 1.0 / (block - top).exp().sum(-1)
    return block.abs().masked_fill(~used, -1.0), weight[several]


def _unravel_index(index: int, shape: torch.Size) -> tuple[int, int, int]:
    row, key = divmod(index, shape[2])
    sequence, query = divmod(row, shape[1])
    return sequence, query, key
