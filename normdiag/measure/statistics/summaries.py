"""Summaries of numbers per token. Medians interpolate as numpy's do."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from normdiag.evidence.statistics import MedianMax, MedianMin

Numbers = npt.NDArray[np.float64]


def median_and_max(values: Numbers) -> MedianMax:
    """Median and max."""
    return MedianMax(median=float(np.median(values)), max=float(values.max()))


def median_and_min(values: Numbers) -> MedianMin:
    """Median and min."""
    return MedianMin(median=float(np.median(values)), min=float(values.min()))
