"""Near-norms: what scales x by a statistic over its features and is no known norm."""

from __future__ import annotations

from normdiag.evidence.record import record
from normdiag.evidence.statistics import Range


@record
class NearNorm:
    """What a near-norm does to sizes, over the sampled tokens, before gain and bias."""

    size_exponent: float
    """p of rms(y(2 x)) = 2^p rms(y(x)), computed in float64, median over tokens: 0 where the
    output's size does not follow the input's, 1 where it is proportional to it."""
    output_rms: Range
    """rms(y) per token: 1 throughout for LayerNorm and RMSNorm."""
    input_rms: float
    """rms(x), median over tokens."""
