"""Per-token numbers become summaries. Medians and percentiles interpolate as numpy's do."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from normdiag.evidence.statistics import Least, Range, Typical, Worst

Numbers = npt.NDArray[np.float64]


def typical(values: Numbers) -> Typical:
    """Mean, median, max."""
    return Typical(mean=float(values.mean()), median=_median(values), max=float(values.max()))


def spread(values: Numbers) -> Range:
    """Min, median, 95th percentile, max."""
    return Range(
        min=float(values.min()),
        median=_median(values),
        p95=float(np.percentile(values, 95)),
        max=float(values.max()),
    )


def worst(values: Numbers) -> Worst:
    """Median and max."""
    return Worst(median=_median(values), max=float(values.max()))


def least(values: Numbers) -> Least:
    """Median and min."""
    return Least(median=_median(values), min=float(values.min()))


def _median(values: Numbers) -> float:
    return float(np.median(values))
