"""The gain of a norm, as it acts."""

from __future__ import annotations

from normdiag.evidence.record import record
from normdiag.evidence.statistics import Histogram


@record
class Gain:
    """The effective gain gamma of a norm, the factor on the normalised value.

    It includes the 1 of Gemma's `1 + w`; a norm without a gain has null, not ones.
    """

    rms: float
    min_abs: float
    max_abs: float
    zeros: int
    nonfinite: int
    negatives: int = 0
    mean: float | None = None
    median_abs: float | None = None
    """Median of |gamma|."""
    max_channel: int | None = None
    """The channel of the largest |gamma|."""
    dead: int = 0
    """Number of gains of at most 1e-6 of the median |gamma| of the non-zero gains, zeros
    included."""
    offset: float = 0.0
    """The constant that the model adds to the stored vector: 1 for `1 + w`."""
    histogram: Histogram | None = None
    """Of all finite gamma, signs kept; null where there is none, and in older reports."""
