"""The first value that is not finite, at the operation that made it."""

from __future__ import annotations

from normdiag.evidence.record import record


@record
class Operand:
    """One operand's range, over its finite values, and how many are not finite."""

    name: str
    min: float | None
    max: float | None
    nonfinite: int


@record
class StreamMaximum:
    """The largest |y| of the stream in a forward of a float32 copy of the model, and where."""

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
    """The largest magnitude of the same operation in float64, where it is an addition."""
    in_float32: StreamMaximum | None = None
    """Of a model in half precision that is small enough for a copy, which stayed finite."""
