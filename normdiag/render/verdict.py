"""The outcome of a check in words, one way for all formats. Text from outside is made visible."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from normdiag.findings import SEVERITIES, Finding
from normdiag.render.escape import visible
from normdiag.render.severity import counted
from normdiag.report.check import Check, FailOn, Standing
from normdiag.report.report import Report
from normdiag.report.series import Entry

_FEW = 3
_PASSED: dict[FailOn, str] = {
    "error": "no finding is an error",
    "warning": "no finding is a warning or worse",
    "info": "there is no finding",
    "never": "no finding fails it",
}


def outcome(check: Check) -> str:
    """Return "passed", "failed" or "incomplete"."""
    return {0: "passed", 1: "failed"}.get(check.exit_code, "incomplete")


def headline(report: Report) -> str:
    """Return the outcome and why it is that, in one line; "" for a report that was not checked."""
    check = report.check
    if check is None:
        return ""
    reasons = list(_reasons(report, check))
    more = f"; and {len(reasons) - _FEW} more" if len(reasons) > _FEW else ""
    return f"{outcome(check)}: {'; '.join(reasons[:_FEW])}{more}"


def entry_headline(entry: Entry) -> str:
    """Return the same for one of several targets, which may have no report."""
    if entry.failure is not None:
        return f"no report: {visible(entry.failure.what)}"
    return headline(entry.report) if entry.report else ""


def standing_of(report: Report) -> tuple[tuple[Finding, Standing | None], ...]:
    """Return each finding with how it stands; None for a report that was not checked."""
    standings = report.check.standings if report.check else ()
    if len(standings) != len(report.findings):
        return tuple((finding, None) for finding in report.findings)
    return tuple(zip(report.findings, standings, strict=True))


def beside_baseline(check: Check) -> str:
    """Return how many findings are new, worse, known and gone."""
    states = Counter(standing.state for standing in check.standings)
    gone = len(check.baseline.gone) if check.baseline else 0
    return f"{states['new']} new, {states['worse']} worse, {states['known']} known, {gone} gone"


def _reasons(report: Report, check: Check) -> Iterator[str]:
    if check.exit_code == 0:
        if check.baseline is None:
            yield _PASSED[check.fail_on]
        else:
            the = "the" if check.baseline.note is None else "a doubtful"
            yield f"beside {the} baseline {beside_baseline(check)}"
            if any(standing.state != "known" for standing in check.standings):
                yield f"--fail-on {check.fail_on} lets them pass"
        return
    failing = [pair for pair in standing_of(report) if pair[1] is not None and pair[1].fails]
    for severity in reversed(SEVERITIES):
        codes = [finding.code for finding, _ in failing if finding.severity == severity]
        if codes:
            new = "" if check.baseline is None else "new or worse "
            named = ", ".join(dict.fromkeys(visible(code) for code in codes))
            yield f"{counted(len(codes), severity, new)} ({named})"
    wanted = "broken" if check.exit_code == 1 else "unknown"
    yield from (visible(each.why) for each in check.bounds if each.state == wanted)
    if check.exit_code != 1 and check.require_complete:
        yield from (visible(each) for each in check.lacking)
        yield from (visible(each.why) for each in check.bounds if each.state == "kept")
