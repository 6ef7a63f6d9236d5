"""Sorting values that may be NaN."""

from __future__ import annotations

import math


def nan_as_largest(value: float) -> float:
    """Return `value` as a sort key; NaN counts as infinite."""
    return math.inf if math.isnan(value) else value
