"""The first non-finite value and the operation that produced it."""

from __future__ import annotations

from typing import Literal

from normdiag.evidence.record import record

NonFiniteKind = Literal[
    "overflow",
    "partial-sum-overflow",
    "zero-by-zero",
    "division-by-zero",
    "division-by-zero-root",
    "infinity-by-infinity",
    "negative-root",
    "negative-logarithm",
    "logarithm-of-zero",
    "zero-times-infinity",
    "infinite-difference",
    "masked-row",
]


@record
class Operand:
    """The range of one operand's finite values, and the number of its non-finite values."""

    name: str
    min: float | None
    max: float | None
    nonfinite: int


@record
class NonFiniteCause:
    """Why the result is not finite, as the operands at its elements show."""

    kind: NonFiniteKind
    elements: int
    """Number of elements of the result that are not finite for this reason."""


@record
class StreamMaximum:
    """The largest |y| of the stream in a forward of a float32 copy of the model, with its site."""

    site: str
    max_abs: float


@record
class FirstNonFinite:
    """The operation whose operands were finite and whose result was not."""

    operation: str
    module: str
    line: str | None
    site: str | None
    """The id of the residual add or norm that this operation belongs to."""
    layer: int | None
    kind: str
    """"inf" or "nan"."""
    count: int
    operands: tuple[Operand, ...]
    exact_max: float | None
    """The largest finite magnitude of the result in float64, among the elements that are not
    finite; null where the operation is not repeated in float64."""
    in_float32: StreamMaximum | None = None
    """For small half-precision models whose float32 copy stays finite."""
    dtype: str | None = None
    """Number format of the result."""
    cause: NonFiniteCause | None = None
    """Null where the operands do not show one."""
