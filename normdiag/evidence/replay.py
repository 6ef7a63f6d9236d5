"""Replay: each norm and add recomputed from its operands."""

from __future__ import annotations

from typing import Literal

from normdiag.evidence.record import record


@record
class HalfStatistic:
    """The replay of a norm that is written out in float16, with its statistic in float16."""

    kind: Literal["sum-overflow", "square-underflow"]
    value: float
    """In float64: the largest sum of squares of a row, or the smallest mean square."""
    computed: float | None
    """That mean square in float16; null for a sum, which is infinite."""
    max_rel_error: float
    """As that of the replay, with this statistic in place of the exact one."""


@record
class Replay:
    """max |recomputed - recorded| / max |recorded| of one site, over the replayed tokens."""

    max_rel_error: float
    half_statistic: HalfStatistic | None = None
    """Where the sum of squares passes float16 or the mean square lies below its smallest normal
    number, in a norm that computes in float16."""
