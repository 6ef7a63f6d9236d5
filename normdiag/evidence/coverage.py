"""What was not understood, not run or not measured. Unknown is not healthy."""

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
    """Something that was asked for and not done."""

    what: str
    why: str


@record
class Coverage:
    """The honest margin of a report."""

    unexplained_adds: tuple[UnexplainedAdd, ...] = ()
    unexplained_norms: tuple[str, ...] = ()
    """Ids of norms attached to nothing."""
    modules_not_called: tuple[str, ...] = ()
    skipped: tuple[SkippedMeasurement, ...] = ()
    measures: tuple[str, ...] = ()
    """The measures that were taken, those that others require included."""
    operations: int = 0
    """How many operations the forward was."""
