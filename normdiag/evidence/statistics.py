"""Summaries over tokens that are not padding. Medians interpolate as numpy's do."""

from __future__ import annotations

from normdiag.evidence.record import record


@record
class MeanMedianMax:
    """Mean, median and largest value over tokens."""

    mean: float
    median: float
    max: float


@record
class Range:
    """Smallest, median, 95th percentile and largest value over tokens."""

    min: float
    median: float
    p95: float
    max: float


@record
class Quantiles:
    """The numbers below which 5, 25, 50, 75 and 95 % of all lie, interpolated as numpy's are.

    Exact up to 4,096 numbers; of more, each order statistic is within 0.39 %.
    """

    p5: float
    p25: float
    p50: float
    p75: float
    p95: float


@record
class Histogram:
    """How many of n numbers lie in each of 32 bins of one width between the least and the largest.

    Number x is in bin floor(32 (x - min) / (max - min)), the largest one in the last bin, and all
    are in the first one where they are equal.
    """

    min: float
    max: float
    counts: tuple[int, ...]


@record
class MedianMax:
    """Median and largest value over tokens; for quantities where large is bad."""

    median: float
    max: float


@record
class MedianMin:
    """Median and smallest value over tokens; for quantities where small is bad."""

    median: float
    min: float
