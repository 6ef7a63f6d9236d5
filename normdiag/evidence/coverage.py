"""What was not recognised, not run or not measured."""

from __future__ import annotations

from normdiag.evidence.record import record


@record
class UnexplainedAdd:
    """An addition of stream width that is neither a residual add nor anything known."""

    module: str
    line: str | None
    shape: tuple[int, ...]
    why: str


@record
class SkippedMeasurement:
    """A requested measurement that was not made, and why."""

    what: str
    why: str


@record
class Coverage:
    """What the report does not cover."""

    unexplained_adds: tuple[UnexplainedAdd, ...] = ()
    unexplained_norms: tuple[str, ...] = ()
    """Ids of norms that belong to no stack."""
    modules_not_called: tuple[str, ...] = ()
    skipped: tuple[SkippedMeasurement, ...] = ()
    measures: tuple[str, ...] = ()
    """The measures that were taken, those that others require included."""
    operations: int = 0
    """Number of operations in the forward."""
