"""The outcome of a check in words, one way for all formats. Text from outside is made visible."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from normdiag.findings import SEVERITIES, FailOn, Finding
from normdiag.render.escape import escape_text
from normdiag.render.severity import format_severity_count
from normdiag.report.check import Check, FindingStatus
from normdiag.report.report import Report
from normdiag.report.series import SeriesEntry

_SHOWN = 3
_PASSED: dict[FailOn, str] = {
    "error": "no finding is an error",
    "warning": "no finding is a warning or worse",
    "info": "there is no finding",
    "never": "no finding fails it",
}


def name_outcome(check: Check) -> str:
    """Return "passed", "failed" or "incomplete"."""
    return {0: "passed", 1: "failed"}.get(check.exit_code, "incomplete")


def format_headline(report: Report) -> str:
    """Return the outcome and why it is that, in one line; "" for a report that was not checked."""
    check = report.check
    if check is None:
        return ""
    reasons = list(_list_reasons(report, check))
    more = f"; and {len(reasons) - _SHOWN} more" if len(reasons) > _SHOWN else ""
    return f"{name_outcome(check)}: {'; '.join(reasons[:_SHOWN])}{more}"


def format_entry_headline(entry: SeriesEntry) -> str:
    """Return the same for one of several targets, which may have no report."""
    if entry.failure is not None:
        return f"no report: {escape_text(entry.failure.what)}"
    return format_headline(entry.report) if entry.report else ""


def pair_with_statuses(report: Report) -> tuple[tuple[Finding, FindingStatus | None], ...]:
    """Return each finding with its status; None for a report that was not checked."""
    statuses = report.check.finding_statuses if report.check else ()
    if len(statuses) != len(report.findings):
        return tuple((finding, None) for finding in report.findings)
    return tuple(zip(report.findings, statuses, strict=True))


def format_baseline_changes(check: Check) -> str:
    """Return how many findings are new, worse, known and gone."""
    states = Counter(status.state for status in check.finding_statuses)
    gone = len(check.baseline.gone) if check.baseline else 0
    return f"{states['new']} new, {states['worse']} worse, {states['known']} known, {gone} gone"


def _list_reasons(report: Report, check: Check) -> Iterator[str]:
    if check.exit_code == 0:
        if check.baseline is None:
            yield _PASSED[check.fail_on]
        else:
            doubt = "" if check.baseline.note is None else " (doubtful)"
            yield f"compared with the baseline{doubt}: {format_baseline_changes(check)}"
            if any(status.state != "known" for status in check.finding_statuses):
                yield f"--fail-on {check.fail_on} lets them pass"
        return
    pairs = pair_with_statuses(report)
    failing = [pair for pair in pairs if pair[1] is not None and pair[1].fails]
    for severity in reversed(SEVERITIES):
        codes = [finding.code for finding, _ in failing if finding.severity == severity]
        if codes:
            new = "" if check.baseline is None else "new or worse "
            names = ", ".join(dict.fromkeys(escape_text(code) for code in codes))
            yield f"{format_severity_count(len(codes), severity, new)} ({names})"
    state = "broken" if check.exit_code == 1 else "unknown"
    yield from (escape_text(each.why) for each in check.bounds if each.state == state)
    if check.exit_code != 1 and check.require_complete:
        yield from (escape_text(each) for each in check.missing_evidence)
        yield from (escape_text(each.why) for each in check.bounds if each.state == "kept")
