"""The gate of `check` and its baseline, from the options."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from normdiag.gate_options import CheckOptions
from normdiag.options import JudgingOptions
from normdiag.report.bounds import Bound
from normdiag.report.check import IgnoredRule
from normdiag.report.gate import Gate
from normdiag.report.paths import parse_path
from normdiag.report.report import Report
from normdiag.report.saved import load_reports
from normdiag.report.series import Series
from normdiag.rules.engine import judge_evidence


def build_gate(
    options: CheckOptions, ignored: Iterable[str], ignore_reasons: Mapping[str, str]
) -> Gate:
    """Build the gate. Raises UsageError for a bound whose path no report has, before any work."""
    return Gate(
        fail_on=options.fail_on,
        require_complete=options.require_complete,
        bounds=(
            *(Bound(parse_path(path), "max", limit) for path, limit in options.max.items()),
            *(Bound(parse_path(path), "min", limit) for path, limit in options.min.items()),
        ),
        margin=options.margin,
        ignored=tuple(
            IgnoredRule(selector=selector, reason=ignore_reasons.get(selector, ""))
            for selector in ignored
        ),
    )


def judge_report(report: Report, judging: JudgingOptions) -> Report:
    """Judge a saved report by the current rules and thresholds."""
    evidence = report.to_evidence()
    judgement = judge_evidence(
        evidence, select=judging.select, ignore=judging.ignore, thresholds=judging.thresholds
    )
    return Report.from_evidence(evidence, judgement)


@dataclass(frozen=True, slots=True)
class Baselines:
    """What to compare with: one report for all targets, or one for each by the target's name."""

    path: Path | None = None
    shared: Report | None = None
    by_target: Mapping[str, Report] = field(default_factory=dict)

    def find_report(self, target: str) -> Report | None:
        """Return the report to compare `target` with; None where there is none."""
        return self.shared or self.by_target.get(target)


def load_baselines(path: Path | None, judging: JudgingOptions) -> Baselines:
    """Read the baseline and judge it by the current rules. Raises ReportError, UsageError."""
    if path is None:
        return Baselines()
    saved = load_reports(path)
    if not isinstance(saved, Series):
        return Baselines(path, shared=judge_report(saved, judging))
    reports = {
        entry.target: judge_report(entry.report, judging)
        for entry in saved.reports
        if entry.report is not None
    }
    return Baselines(path, by_target=reports)
