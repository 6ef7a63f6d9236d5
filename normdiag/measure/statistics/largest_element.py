"""The largest of all values, and where it is."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from normdiag.measure.statistics.summaries import Numbers

Place = tuple[int, int, int]
"""Sequence, position and channel."""


@dataclass(slots=True)
class LargestElement:
    """Accumulator of a maximum. A NaN is the largest there can be; of equals the first place."""

    value: float | None = None
    """None before there was a token."""
    place: Place = (0, 0, 0)

    def update(
        self, values: Numbers, sequences: Numbers, positions: Numbers, channels: Numbers
    ) -> None:
        """Add the tokens of one pass: the largest value of each, and where it is, all (tokens,)."""
        if not values.size:
            return
        largest = float(values.max())
        ties = np.isnan(values) if np.isnan(largest) else values == largest
        columns = (column[ties].astype(int).tolist() for column in (sequences, positions, channels))
        self._raise_to(largest, min(zip(*columns, strict=True)))

    def merge(self, other: LargestElement) -> None:
        """Take over what `other` has, if it is larger."""
        if other.value is not None:
            self._raise_to(other.value, other.place)

    def compute(self) -> tuple[float, Place] | None:
        """The largest value and its place; None where there was no token."""
        return None if self.value is None else (self.value, self.place)

    def _raise_to(self, value: float, place: Place) -> None:
        if self.value is None or _rank_value(value) > _rank_value(self.value):
            self.value, self.place = value, place
        elif _rank_value(value) == _rank_value(self.value):
            self.place = min(self.place, place)


def _rank_value(value: float) -> tuple[bool, float]:
    is_nan = value != value
    return is_nan, 0.0 if is_nan else value
