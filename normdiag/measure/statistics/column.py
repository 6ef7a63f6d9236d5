"""One number per token over all passes: exact up to a million tokens, then from a sketch."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
import torch

from normdiag.evidence.statistics import Range, Typical, Worst
from normdiag.measure.statistics.summaries import Numbers
from normdiag.numerics.quantiles import Values


@dataclass(slots=True)
class Column:
    """Streaming: any split of the tokens into passes gives the same summaries."""

    values: Values = field(default_factory=Values)
    total: float = 0.0
    count: int = 0
    low: float = math.inf
    high: float = -math.inf

    def take(self, numbers: Numbers) -> None:
        """The tokens of one pass."""
        if not numbers.size:
            return
        owned = np.array(numbers, dtype=np.float64)
        self.values = self.values.update(torch.from_numpy(owned))
        self.total += float(owned.sum())
        self.count += owned.size
        self.low = float(np.minimum(self.low, owned.min()))
        self.high = float(np.maximum(self.high, owned.max()))

    @property
    def mean(self) -> float:
        return self.total / self.count if self.count else math.nan

    @property
    def median(self) -> float:
        return self.values.quantiles(0.5)[0]

    def typical(self) -> Typical:
        """Mean, median, max."""
        return Typical(mean=self.mean, median=self.median, max=self.high)

    def spread(self) -> Range:
        """Min, median, 95th percentile, max."""
        median, p95 = self.values.quantiles(0.5, 0.95)
        return Range(min=self.low, median=median, p95=p95, max=self.high)

    def worst(self) -> Worst:
        """Median and max."""
        return Worst(median=self.median, max=self.high)
