"""The first non-finite value and the operation that produced it."""

from __future__ import annotations

from normdiag.evidence.record import record


@record
class Operand:
    """The range of one operand's finite values, and the number of its non-finite values."""

    name: str
    min: float | None
    max: float | None
    nonfinite: int


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
    """The largest magnitude of the result in float64, for additions."""
    in_float32: StreamMaximum | None = None
    """For small half-precision models whose float32 copy stays finite."""
