"""The comparison of two models: differences, first divergence of the streams, changed findings."""

from __future__ import annotations

from collections import Counter
from dataclasses import field
from pathlib import Path
from typing import Any, Literal

from normdiag.evidence.differences import NormDifference, RelativeDifference, VectorDifference
from normdiag.evidence.record import record
from normdiag.evidence.subject import Subject
from normdiag.findings import Finding, Severity, SkippedRule
from normdiag.number_text import format_count
from normdiag.printable_text import escape_in_full
from normdiag.report import atomic, v1

ComparisonBasis = Literal["values", "summaries", "structure"]
"""Values at each site on the same inputs; norms from the reports; structure only."""
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
    "weight-order",
    "tensors",
    "buffer",
    "norm-output",
    "output",
    "non-finite",
    "stream-factor",
    "stream",
]
StreamPart = Literal["skip", "branch", "out"]


@record
class Difference:
    """A difference at one site, or the same difference at several sites.

    Errors never occur between two forms of one model; warnings are different values.
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
    """The rounding tolerance."""


@record
class StreamDifference:
    """Relative differences of the stream at one residual add y = x + u.

    From summaries they are differences of norms: the larger of mean and median over tokens.
    """

    a: str
    b: str
    skip: RelativeDifference
    branch: RelativeDifference
    out: RelativeDifference
    tolerance: float
    tokens: int | None = None
    """Number of tokens compared one by one; null for summaries."""
    a_norm: float | None = None
    """Mean ||y|| over all tokens of the first model; null in older reports."""
    b_norm: float | None = None
    """The same of the second."""


@record
class Divergence:
    """The first residual add where the streams differ by more than the rounding tolerance."""

    a: str
    b: str
    where: StreamPart
    """In its skip operand, in its branch, or in the sum only."""
    error: float
    """Relative error there: the median over tokens, or the maximum where only some tokens
    differ."""
    out: float
    """Relative error of the stream after it."""
    tolerance: float


@record
class FindingChange:
    """A finding that is new or worse in the second model, or gone."""

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
    """The first difference with a known cause, and where the streams diverge."""
    basis: ComparisonBasis
    note: str | None = None
    """Why there is no better basis, and the dtypes that both are stored in where these differ."""
    paired_by: Literal["id", "position"]
    dtype: str
    """The coarsest of the dtypes that both run in and, where these differ, are stored in: it sets
    the rounding tolerance."""
    differences: tuple[Difference, ...]
    """In the order of the forward."""
    first_divergence: Divergence | None
    stream: tuple[StreamDifference, ...]
    changes: tuple[FindingChange, ...]
    outputs: dict[str, RelativeDifference] = field(default_factory=dict)
    """Of the models' output tensors on the same inputs."""
    norms: dict[str, NormDifference] = field(default_factory=dict)
    """Of what paired norms receive and put out on the same inputs, by id in the first."""
    gains: dict[str, VectorDifference] = field(default_factory=dict)
    """Of the gains of paired norms, element by element, by id in the first."""
    biases: dict[str, VectorDifference] = field(default_factory=dict)
    """The same of their biases."""
    equal_outputs: tuple[str, ...] = ()
    """Of saved reports: names of outputs whose sums agree in both, within rounding."""
    not_compared: tuple[str, ...] = ()
    """What could not be compared, and why."""
    skipped_rules: tuple[SkippedRule, ...] = ()
    """Rules that were skipped for one of the two; their findings are not compared."""

    @property
    def changed_severities(self) -> frozenset[Severity]:
        """Severities of all differences and of findings that are new or worse."""
        changed = (c.finding.severity for c in self.changes if c.state != "gone")
        return frozenset((*(d.severity for d in self.differences), *changed))

    def __repr__(self) -> str:
        counts = [format_count(len(self.differences), "difference")]
        counts += [
            f"{format_count(many, 'finding')} {state}"
            for state, many in Counter(change.state for change in self.changes).items()
        ]
        title = f"{self.a.target} and {self.b.target}: {self.headline}"
        more = "more: normdiag.render_report(comparison), .differences, .stream, .changes"
        lines = map(escape_in_full, (title, ", ".join(counts), more))
        return "<normdiag comparison: " + "\n  ".join(lines) + ">"

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON document as plain dicts, lists, strings and numbers, as it is saved."""
        return v1.to_document(self)

    def save(self, path: str | Path) -> None:
        """Write the JSON document. An interrupted or failed write leaves the old file in place."""
        atomic.write_atomically(Path(path), v1.dump_record(self))
