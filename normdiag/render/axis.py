"""The range of the values that are drawn together, linear or logarithmic."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from normdiag.number_text import format_number

_LOG_FROM = 20.0
"""The ratio of largest to smallest from which a linear axis would hide the small ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """A range, linear from 0 or logarithmic from its smallest value."""

    low: float
    high: float
    is_log: bool
    has_gaps: bool
    """Some of the values are not finite."""
    has_zeros: bool = False
    """Some of the values are 0, and drawn at the lower end of a logarithmic axis."""

    @classmethod
    def fit_values(cls, values: Iterable[float]) -> Axis:
        """Return the axis that fits the finite ones of `values`."""
        values = list(values)
        finite = [value for value in values if math.isfinite(value)]
        positive = [value for value in finite if value > 0]
        low, high = min(positive, default=0.0), max(finite, default=0.0)
        is_log = low > 0 and high / low > _LOG_FROM
        return cls(
            low=low if is_log else 0.0,
            high=high,
            is_log=is_log,
            has_gaps=len(finite) < len(values),
            has_zeros=is_log and len(positive) < len(finite),
        )

    def relative_position(self, value: float) -> float:
        """Return where a finite `value` lies on the axis, from 0 to 1."""
        if self.is_log:
            # differences of logarithms: the ratio of high to low may be beyond the largest float
            start, end = math.log(self.low), math.log(self.high)
            position = (math.log(max(value, self.low)) - start) / (end - start)
        else:
            position = value / self.high if self.high > 0 else 0.0
        return min(max(position, 0.0), 1.0)

    def value_at(self, position: float) -> float:
        """Return the value at a relative position from 0 to 1."""
        if self.is_log:
            return math.exp((1 - position) * math.log(self.low) + position * math.log(self.high))
        return self.low + position * (self.high - self.low)

    def describe_scale(self) -> str:
        """Return the kind and the ends of the axis."""
        kind = "log" if self.is_log else "linear"
        return f"{kind} scale, {format_number(self.low)} to {format_number(self.high)}"
