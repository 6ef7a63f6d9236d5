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
class MedianMax:
    """Median and largest value over tokens; for quantities where large is bad."""

    median: float
    max: float


@record
class MedianMin:
    """Median and smallest value over tokens; for quantities where small is bad."""

    median: float
    min: float
