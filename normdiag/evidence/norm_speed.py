"""Times of LayerNorm and RMSNorm, at the shapes of a model."""

from __future__ import annotations

from typing import Literal

from normdiag.evidence.record import record


@record
class NormSpeed:
    """Forward passes without gradients, both kinds in turn, on normal numbers."""

    form: Literal["fused", "composed"]
    """torch's `layer_norm` and `rms_norm`, or one operation after the other."""
    shape: tuple[int, ...]
    """Of the input."""
    features: int
    dtype: str
    device: str
    norms: int
    """How many norms of the model have this input."""
    runs: int
    layer_norm_ms: float
    """Median."""
    rms_norm_ms: float
    ratio: float
    """RMSNorm's time over LayerNorm's, of neighbouring runs: median."""
    ratio_min: float
    ratio_max: float
