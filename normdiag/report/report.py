"""The report: the evidence of one target and the findings of the rules."""

from __future__ import annotations

from pathlib import Path
from typing import Any

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


@record
class RuleOutcomes:
    """Rules that passed and rules that were skipped."""

    passed: tuple[str, ...] = ()
    skipped: tuple[SkippedRule, ...] = ()
    nearest: tuple[NearestLimit, ...] = ()
    """Of the rules that passed, the thresholds that are nearest to being passed."""


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
                passed=judgement.passed, skipped=judgement.skipped, nearest=judgement.nearest
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
