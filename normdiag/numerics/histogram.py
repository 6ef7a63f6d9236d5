"""How many numbers of a vector lie in each of 32 bins between its ends."""

from __future__ import annotations

import torch
from torch import Tensor

from normdiag.evidence.statistics import Histogram

BINS = 32


def count_bins(numbers: Tensor) -> Histogram:
    """Count finite float64 numbers (N,), at least one, in `BINS` bins of one width.

    Number x is in bin floor(32 (x - min) / (max - min)), the largest one in the last bin; all are
    in the first where they are equal.
    """
    low, high = numbers.min(), numbers.max()
    width = high / 2 - low / 2  # halves: the ends may be further apart than the largest float64
    if width > 0:
        places = ((numbers / 2 - low / 2) / width * BINS).long().clamp(max=BINS - 1)
    else:
        places = torch.zeros(numbers.numel(), dtype=torch.long)
    counts = torch.bincount(places, minlength=BINS)
    return Histogram(min=float(low), max=float(high), counts=tuple(counts.tolist()))
