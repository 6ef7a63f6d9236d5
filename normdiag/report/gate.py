"""The gate: whether findings, bounds or missing evidence fail the check."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from normdiag.errors import ExitCode
from normdiag.findings import SEVERITIES, FailOn, Finding
from normdiag.report import baseline, bounds, inputs
from normdiag.report.check import Baseline, Check, FindingStatus, IgnoredRule
from normdiag.report.report import Report


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """The conditions of a check."""

    fail_on: FailOn = "error"
    require_complete: bool = False
    bounds: tuple[bounds.Bound, ...] = ()
    margin: float = baseline.MARGIN
    ignored: tuple[IgnoredRule, ...] = ()


def gate_exit_code(report: Report, fail_on: FailOn) -> ExitCode:
    """Return GATE_FAILED where a finding is at least as severe as `fail_on`, else PASSED."""
    failing = any(_reaches_severity(finding, fail_on) for finding in report.findings)
    return ExitCode.GATE_FAILED if failing else ExitCode.PASSED


def missing_evidence(report: Report) -> tuple[str, ...]:
    """List skipped rules and measurements with their reasons."""
    rules = [f"{skip.code}: {skip.why}" for skip in report.rules.skipped]
    return (*rules, *(f"{skipped.what}: {skipped.why}" for skipped in report.coverage.skipped))


def check_report(
    report: Report, gate: Gate, before: Report | None = None, origin: str = ""
) -> Report:
    """Add the outcome of the gate to `report`.

    `before` is the baseline from `origin`, judged by the same rules; findings that it contains do
    not fail unless they are worse.
    """
    findings = report.findings
    matches = baseline.match_findings(findings, before.findings if before else (), gate.margin)
    statuses = tuple(
        FindingStatus(
            code=finding.code,
            ids=finding.ids,
            state=change.state,
            why=_state_reason(finding, change, before) if before else "",
            fails=change.state != "known" and _reaches_severity(finding, gate.fail_on),
        )
        for finding, change in zip(findings, matches.changes, strict=True)
    )
    check = Check(
        exit_code=ExitCode.PASSED,
        fail_on=gate.fail_on,
        require_complete=gate.require_complete,
        finding_statuses=statuses,
        baseline=_describe_baseline(report, before, origin, gate, matches.gone) if before else None,
        bounds=bounds.evaluate_bounds(gate.bounds, report),
        ignored=gate.ignored,
        missing_evidence=missing_evidence(report),
    )
    return replace(report, check=replace(check, exit_code=_exit_code(check)))


def _reaches_severity(finding: Finding, fail_on: FailOn) -> bool:
    if fail_on == "never":
        return False
    return SEVERITIES.index(finding.severity) >= SEVERITIES.index(fail_on)


def _state_reason(finding: Finding, change: baseline.StateReason, before: Report) -> str:
    unjudged = [skip.why for skip in before.rules.skipped if skip.code == finding.code]
    if change.state == "new" and unjudged:
        return f"this rule was skipped for the baseline: {unjudged[0]}"
    return change.why


def _describe_baseline(
    report: Report, before: Report, origin: str, gate: Gate, gone: Iterable[Finding]
) -> Baseline:
    doubts = "; ".join(_comparability_doubts(report, before))
    return Baseline(
        path=origin,
        target=before.subject.target,
        margin=gate.margin,
        gone=tuple(gone),
        note=f"limited comparability: {doubts}" if doubts else None,
    )


def _comparability_doubts(report: Report, before: Report) -> Iterator[str]:
    """Yield reasons why the two reports may not be comparable."""
    here, there = _site_ids(report), _site_ids(before)
    if here and here.isdisjoint(there):
        yield "the baseline has no norm or add id in common with this report (another model?)"
    now, then = report.subject, before.subject
    if now.dtype != then.dtype:
        yield f"the baseline was run in {then.dtype}, this report in {now.dtype}"
    if not inputs.are_same_inputs(now.probe, then.probe):
        yield "the baseline was run on other inputs"


def _site_ids(report: Report) -> set[str]:
    norms, adds = report.architecture.norms, report.architecture.residual_adds
    return {norm.id for norm in norms} | {add.id for add in adds}


def _exit_code(check: Check) -> int:
    """A failure takes precedence over missing evidence."""
    states = {bounded.state for bounded in check.bounds}
    if "broken" in states or any(status.fails for status in check.finding_statuses):
        return ExitCode.GATE_FAILED
    is_unmeasured = any(bounded.unmeasured for bounded in check.bounds)
    if "unknown" in states or (
        check.require_complete and (check.missing_evidence or is_unmeasured)
    ):
        return ExitCode.INCOMPLETE
    return ExitCode.PASSED
