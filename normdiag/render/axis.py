"""One axis for many values: bars, sparklines and shades, all readable without colour."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from normdiag.render.units import number

SHADES = "·░▒▓█"
_BARS = " ▏▎▍▌▋▊▉█"
_SPARKS = "▁▂▃▄▅▆▇█"
NOT_FINITE = "!"
_LOG_FROM = 20.0
"""The ratio of largest to smallest from which a linear axis would hide the small ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """A range, linear from 0 or logarithmic from its smallest value."""

    low: float
    high: float
    log: bool
    gaps: bool
    """Some of the values are not finite."""

    @classmethod
    def over(cls, values: Iterable[float]) -> Axis:
        """Return the axis that fits the finite ones of `values`."""
        given = list(values)
        finite = [value for value in given if math.isfinite(value)]
        positive = [value for value in finite if value > 0]
        low, high = min(positive, default=0.0), max(finite, default=0.0)
        log = low > 0 and high / low > _LOG_FROM
        return cls(low=low if log else 0.0, high=high, log=log, gaps=len(finite) < len(given))

    def share(self, value: float) -> float:
        """Return where a finite `value` lies on the axis, from 0 to 1."""
        if self.log:
            # differences of logarithms: the ratio of high to low may be beyond the largest float
            start, end = math.log(self.low), math.log(self.high)
            place = (math.log(max(value, self.low)) - start) / (end - start)
        else:
            place = value / self.high if self.high > 0 else 0.0
        return min(max(place, 0.0), 1.0)

    def bar(self, value: float, width: int) -> str:
        """Return a bar of at most `width` cells, to an eighth of a cell, never of none."""
        if not math.isfinite(value):
            return NOT_FINITE
        eighths = max(1, round(self.share(value) * width * 8))
        return "█" * (eighths // 8) + _BARS[eighths % 8].strip()

    def sparkline(self, values: Iterable[float]) -> str:
        """Return one character per value, its height telling the size."""
        return "".join(self._step(value, _SPARKS) for value in values)

    def level(self, value: float) -> int | None:
        """Return which of the shades `value` has; None where it is not finite."""
        if not math.isfinite(value):
            return None
        return min(int(self.share(value) * len(SHADES)), len(SHADES) - 1)

    def shade(self, value: float) -> str:
        """Return one character, darker for larger."""
        return self._step(value, SHADES)

    def legend(self) -> str:
        """Return from which value on each shade is used."""
        shares = [step / len(SHADES) for step in range(len(SHADES))]
        return "  ".join(
            f"{shade} {number(self._value(share), 2)}"
            for shade, share in zip(SHADES, shares, strict=True)
        ) + (f"  {NOT_FINITE} not finite" if self.gaps else "")

    def words(self) -> str:
        """Return what a reader of the bars must know."""
        kind = "log" if self.log else "linear"
        return f"{kind} scale, {number(self.low)} to {number(self.high)}"

    def _value(self, share: float) -> float:
        if self.log:
            return math.exp((1 - share) * math.log(self.low) + share * math.log(self.high))
        return self.low + share * (self.high - self.low)

    def _step(self, value: float, steps: str) -> str:
        if not math.isfinite(value):
            return NOT_FINITE
        return steps[min(int(self.share(value) * len(steps)), len(steps) - 1)]
