"""The protocol of every streaming statistic."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import Any, Protocol, Self, TypeVar

Result_co = TypeVar("Result_co", covariant=True)


class Accumulator(Protocol[Result_co]):
    """A statistic over passes: `update` with each pass, `merge` with another one, `compute`.

    Any partition of the passes over accumulators, merged in any order, computes the same: counts
    and extremes exactly, sums to the rounding of float64 (1e-12 of the sum of magnitudes),
    quantiles within the error that `QuantileSketch` states. Ties are broken by sequence, position
    and channel, a NaN is never lost, and what one pass decides for all (a dtype, the sites) is
    decided by the pass with the smallest sequence number. No sequence is split over passes.

    The state is plain: numbers, strings, and arrays or tensors on the host. It can be pickled and
    sent from one process to another.
    """

    def update(self, *args: Any, **kwargs: Any) -> None:
        """Add one pass, in place."""

    def merge(self, other: Self) -> None:
        """Add everything that `other` has accumulated, in place; `other` stays as it is."""

    def compute(self, *args: Any, **kwargs: Any) -> Result_co:
        """The statistic of everything so far. Changes nothing: updates may follow."""


SomeAccumulator = TypeVar("SomeAccumulator", bound=Accumulator[Any])


def merge_by_id(mine: dict[str, SomeAccumulator], theirs: Mapping[str, SomeAccumulator]) -> None:
    """Merge the accumulators of each id into `mine`; those that `mine` lacks are copied."""
    for id, accumulator in theirs.items():
        if id in mine:
            mine[id].merge(accumulator)
        else:
            mine[id] = deepcopy(accumulator)
