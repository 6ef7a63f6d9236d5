"""Norm inputs whose deviation from the mean is below the step of their format at the mean."""

from __future__ import annotations

import math

from normdiag.evidence.evidence import Evidence
from normdiag.evidence.number_formats import NUMBER_FORMATS


def rounding_step(evidence: Evidence, norm: str) -> float | None:
    """Return the distance between neighbouring numbers of the input's format at its mean |x|.

    2^(floor(log2 |mean|) - m) with m fraction bits. None where format or mean is not known.
    """
    formats = {each.id: each.dtype for each in evidence.architecture.norms}
    measured = evidence.measurements.norms.get(norm)
    number_format = NUMBER_FORMATS.get(formats.get(norm) or "")
    if measured is None or number_format is None:
        return None
    mean = abs(measured.input_mean)
    if not math.isfinite(mean) or mean == 0:
        return None
    return math.ldexp(number_format.epsilon, math.frexp(mean)[1] - 1)


def is_rounded_away(evidence: Evidence, norm: str) -> bool:
    """Whether the standard deviation over features (median over tokens) is below that step."""
    step = rounding_step(evidence, norm)
    if step is None:
        return False
    return evidence.measurements.norms[norm].input_var.median < step**2
