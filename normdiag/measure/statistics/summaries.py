"""Per-token numbers become summaries. Medians and percentiles interpolate as numpy's do."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from normdiag.evidence.statistics import Least, Worst

Numbers = npt.NDArray[np.float64]


def worst(values: Numbers) -> Worst:
    """Median and max."""
    return Worst(median=_median(values), max=float(values.max()))


def least(values: Numbers) -> Least:
    """Median and min."""
    return Least(median=_median(values), min=float(values.min()))


def _median(values: Numbers) -> float:
    return float(np.median(values))
