"""The comparison of two models: what differs, where their streams part, which findings changed."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from normdiag.evidence.differences import RelativeDifference
from normdiag.evidence.record import record
from normdiag.evidence.subject import Subject
from normdiag.findings import Finding, Severity, SkippedRule
from normdiag.report import atomic, v1

ComparisonBasis = Literal["values", "summaries", "structure"]
"""Values at each site on the same inputs; lengths, as reports hold them; neither."""
DifferenceKind = Literal[
    "stacks",
    "layers",
    "moved-layers",
    "width",
    "placement",
    "missing-norm",
    "norm",
    "epsilon",
    "scale",
    "gain-offset",
    "gain-factor",
    "gain",
    "bias",
    "weights",
    "non-finite",
    "stream-factor",
    "stream",
]
StreamPart = Literal["skip", "branch", "out"]


@record
class Difference:
    """One kind of difference at one site or, where it is the same at several, at all of them.

    Errors are what two forms of one model never differ in; warnings are other values.
    """

    kind: DifferenceKind
    severity: Severity
    a: tuple[str, ...]
    """The sites of the first, in the order of its forward; b has their counterparts."""
    b: tuple[str, ...]
    message: str
    value: float | None = None
    """The largest relative difference."""
    tolerance: float | None = None
    """What rounding explains."""


@record
class StreamDifference:
    """How far apart the stream is at one residual add y = x + u.

    From summaries each is of lengths: the larger relative difference of mean and median over
    tokens.
    """

    a: str
    b: str
    skip: RelativeDifference
    branch: RelativeDifference
    out: RelativeDifference
    tolerance: float
    tokens: int | None = None
    """How many were compared one by one; null for summaries."""


@record
class Divergence:
    """The first residual add where the streams differ by more than rounding explains."""

    a: str
    b: str
    where: StreamPart
    """In what it receives (skip), in what its branch computes, or in the sum alone."""
    error: float
    """Of that: the median over tokens, or the largest where only some tokens differ."""
    out: float
    """Of the stream behind it."""
    tolerance: float


@record
class FindingChange:
    """A finding that the second has and the first had not, or not as badly, or the reverse."""

    state: Literal["new", "worse", "gone"]
    finding: Finding
    why: str


@record
class Comparison:
    """Two models, a and b, compared."""

    schema_version: str = v1.VERSION
    a: Subject
    b: Subject
    headline: str
    """The first difference that has a cause, and where the stream parts."""
    basis: ComparisonBasis
    note: str | None = None
    """Why the basis is no better, where that is so."""
    paired_by: Literal["id", "position"]
    dtype: str
    """The coarser of the two dtypes, whose rounding is allowed for."""
    differences: tuple[Difference, ...]
    """In the order of the forward."""
    first_divergence: Divergence | None
    stream: tuple[StreamDifference, ...]
    changes: tuple[FindingChange, ...]
    skipped_rules: tuple[SkippedRule, ...] = ()
    """Rules that could judge only one of the two: no change is told from them."""

    @property
    def changed_severities(self) -> frozenset[Severity]:
        """Of all differences, and of findings that are new or worse."""
        changed = (c.finding.severity for c in self.changes if c.state != "gone")
        return frozenset((*(d.severity for d in self.differences), *changed))

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON document as plain dicts, lists, strings and numbers, as it is saved."""
        return v1.to_document(self)

    def save(self, path: str | Path) -> None:
        """Write the JSON document. An interrupted or failed write leaves the old file in place."""
        atomic.write_atomically(Path(path), v1.dump_record(self))
