"""Summaries of one number per token over all passes."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from normdiag.evidence.statistics import MeanMedianMax, MedianMax, Quantiles, Range
from normdiag.measure.statistics.summaries import Numbers
from normdiag.numerics.quantiles import QuantileSketch


@dataclass(frozen=True, slots=True)
class TokenSummary:
    """NaN of no token, except `min` and `max`, which are infinite."""

    mean: float
    min: float
    max: float
    quantiles: Quantiles

    @property
    def median(self) -> float:
        return self.quantiles.p50

    def to_mean_median_max(self) -> MeanMedianMax:
        """As evidence."""
        return MeanMedianMax(mean=self.mean, median=self.median, max=self.max)

    def to_range(self) -> Range:
        """As evidence."""
        return Range(min=self.min, median=self.median, p95=self.quantiles.p95, max=self.max)

    def to_median_max(self) -> MedianMax:
        """As evidence."""
        return MedianMax(median=self.median, max=self.max)


@dataclass(slots=True)
class TokenStatistics:
    """Accumulator of one number per token."""

    sketch: QuantileSketch = field(default_factory=QuantileSketch)
    total: float = 0.0
    count: int = 0
    low: float = math.inf
    high: float = -math.inf

    def update(self, numbers: Numbers) -> None:
        """Add the tokens of one pass (tokens,)."""
        if not numbers.size:
            return
        self.sketch.update(numbers)
        self.total += float(numbers.sum())
        self.count += numbers.size
        self.low = float(np.minimum(self.low, numbers.min()))
        self.high = float(np.maximum(self.high, numbers.max()))

    def merge(self, other: TokenStatistics) -> None:
        """Add the tokens of `other`."""
        self.sketch.merge(other.sketch)
        self.total += other.total
        self.count += other.count
        self.low = float(np.minimum(self.low, other.low))
        self.high = float(np.maximum(self.high, other.high))

    def compute(self) -> TokenSummary:
        """Mean, extremes and quantiles of all tokens."""
        p5, p25, p50, p75, p95 = self.sketch.compute(0.05, 0.25, 0.5, 0.75, 0.95)
        quantiles = Quantiles(p5=p5, p25=p25, p50=p50, p75=p75, p95=p95)
        return TokenSummary(self.mean, self.low, self.high, quantiles)

    @property
    def mean(self) -> float:
        """NaN of no token."""
        return self.total / self.count if self.count else math.nan
