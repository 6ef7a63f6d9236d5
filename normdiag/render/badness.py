"""Sorting by how bad a value is."""

from __future__ import annotations

import math


def badness(value: float) -> float:
    """Return `value` to sort by, the largest the worst; what is no number is worse than any."""
    return math.inf if math.isnan(value) else value
