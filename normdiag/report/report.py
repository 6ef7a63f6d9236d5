"""The report: the evidence of one target and the findings of the rules."""

from __future__ import annotations

from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from normdiag.evidence.architecture import Architecture
from normdiag.evidence.coverage import Coverage
from normdiag.evidence.evidence import Evidence
from normdiag.evidence.measurements import Measurements
from normdiag.evidence.record import record
from normdiag.evidence.subject import Subject
from normdiag.evidence.tokens import TokenTrace
from normdiag.findings import Finding, Judgement, NearestLimit, SkippedRule
from normdiag.report import atomic, v1
from normdiag.report.check import Check
from normdiag.report.python.data_frame import build_frame
from normdiag.report.python.html_fragment import draw_fragment
from normdiag.report.python.scalars import list_scalars
from normdiag.report.python.short_text import describe_report, name_verdict
from normdiag.report.python.stack_views import StackViews
from normdiag.report.python.unknown_names import describe_unknown

if TYPE_CHECKING:
    from normdiag.views.plots import Plots


@record
class RuleOutcomes:
    """Rules that passed and rules that were skipped."""

    passed: tuple[str, ...] = ()
    skipped: tuple[SkippedRule, ...] = ()
    nearest: tuple[NearestLimit, ...] = ()
    """Of the rules that passed, the thresholds within reach of being passed, nearest first."""
    thresholds: dict[str, dict[str, float]] = field(default_factory=dict)
    """Code -> threshold -> value, of the thresholds that the user set: others had their default."""


@record
class Report:
    """Evidence and findings of one target. Saved, loaded and rendered without torch."""

    schema_version: str = v1.VERSION
    subject: Subject
    architecture: Architecture
    measurements: Measurements
    coverage: Coverage
    findings: tuple[Finding, ...]
    rules: RuleOutcomes
    trace: tuple[TokenTrace, ...] | None = None
    """Token by site; null where it was not requested."""
    check: Check | None = None
    """The outcome of the gate; null unless `check` wrote the report."""

    @classmethod
    def from_evidence(cls, evidence: Evidence, judgement: Judgement) -> Report:
        """Combine evidence and judgement into one report."""
        return cls(
            subject=evidence.subject,
            architecture=evidence.architecture,
            measurements=evidence.measurements,
            coverage=evidence.coverage,
            findings=judgement.findings,
            rules=RuleOutcomes(
                passed=judgement.passed,
                skipped=judgement.skipped,
                nearest=judgement.nearest,
                thresholds=judgement.thresholds,
            ),
            trace=evidence.trace or None,
        )

    def to_evidence(self) -> Evidence:
        """Return the evidence, for judging it again."""
        return Evidence(
            subject=self.subject,
            architecture=self.architecture,
            measurements=self.measurements,
            coverage=self.coverage,
            trace=self.trace or (),
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON document as plain dicts, lists, strings and numbers, as it is saved."""
        return v1.to_document(self)

    def save(self, path: str | Path) -> None:
        """Write the JSON document. An interrupted or failed write leaves the old file in place."""
        atomic.write_atomically(Path(path), v1.dump_record(self))

    def to_json(self) -> str:
        """Return the JSON document as text, as it is saved."""
        return v1.dump_record(self)

    def to_html(self) -> str:
        """Return the page of `--format html`, one file without a network.

        Raises UsageError where the libraries of the page are not installed.
        """
        from normdiag import render_report

        return render_report(self, "html")

    def summary(self, *, full: bool = False, width: int = 80) -> str:
        """Return what `normdiag inspect` prints: one screen, or all sections (`full`)."""
        from normdiag import render_report

        return render_report(self, "text", full=full, width=width)

    def to_frame(self, table: str) -> Any:
        """Return a table as a `pandas.DataFrame`: one row per add, norm, block, ..

        Columns are keys of the JSON, nested keys joined by dots: `out_norm.median`.

        Args:
            table: "stream", "norms", "blocks", "gradients", "findings", or "tokens", which a
                report of `trace` has.

        Raises:
            UsageError: there is no such table, or pandas is not installed.
        """
        return build_frame(self, table)

    def scalars(self) -> dict[str, float]:
        """Return numbers to log, by names that stay: `stack/model.layers/growth`."""
        return list_scalars(self)

    @property
    def verdict(self) -> str:
        """Of a check "passed", "failed" or "incomplete"; else the severity of the worst finding
        ("error", "warning", "info"), or "no findings"."""
        return name_verdict(self)

    @property
    def stacks(self) -> StackViews:
        """Stacks by id or by number, each with what was measured of it."""
        return StackViews(self)

    @property
    def plot(self) -> Plots:
        """The charts of the page as objects of altair: `report.plot.stream_norm()`."""
        from normdiag import Plots

        return Plots(self)

    def __repr__(self) -> str:
        return describe_report(self)

    def _repr_html_(self) -> str:
        return draw_fragment(self)

    if not TYPE_CHECKING:  # a type checker would take any attribute for one that exists

        def __getattr__(self, name: str) -> Any:
            if name.startswith("_"):  # copying and notebooks ask for what need not be there
                raise AttributeError(name)
            raise AttributeError(describe_unknown(self, name))
