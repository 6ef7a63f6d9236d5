"""The findings, and the rules that passed or were skipped."""

from __future__ import annotations

from collections.abc import Iterator

from normdiag.findings import SEVERITIES, Cause, Finding
from normdiag.number_text import format_value
from normdiag.render.elements import (
    Column,
    Element,
    Fact,
    FactList,
    Heading,
    Row,
    Sentence,
    Table,
)
from normdiag.render.escape import shorten_message, shorten_text
from normdiag.render.severity import count_by_severity
from normdiag.render.truncated_lines import truncate_lines
from normdiag.render.verdict import pair_with_statuses
from normdiag.report.check import FindingStatus
from normdiag.report.report import Report

_SHOWN = 4
_COLUMNS = (
    Column(title="severity"),
    Column(title="finding"),
    Column(title="value", align="right"),
    Column(title="threshold", align="right"),
    Column(title="where"),
    Column(title="state"),
)


def section(report: Report, *, all_rows: bool) -> Iterator[Element]:
    """Yield the findings, the severest first, then the rules without one."""
    findings = sorted(report.findings, key=lambda each: -SEVERITIES.index(each.severity))
    yield Heading(title="Findings", detail=count_by_severity(findings) or "none")
    for finding in _place_behind_causes(findings):
        yield from _describe_finding(finding, all_rows=all_rows)
    rules = report.rules
    if rules.passed:
        codes = " ".join(shorten_text(code) for code in rules.passed)
        yield Sentence(text=f"Passed: {codes}", style="quiet")
    for rule in rules.skipped:
        name = f"{shorten_text(rule.code)} {shorten_text(rule.name)}"
        yield Sentence(text=f"Skipped: {name}: {shorten_text(rule.why)}")
    if not (findings or rules.passed or rules.skipped):
        yield Sentence(text="No rule was selected.")


def _place_behind_causes(findings: list[Finding]) -> Iterator[Finding]:
    """Yield each finding and behind it those that it explains."""
    causes = [Cause(code=each.code, id=each.ids[0] if each.ids else "") for each in findings]
    for finding, cause in zip(findings, causes, strict=True):
        if finding.explained_by not in causes:
            yield finding
            yield from (each for each in findings if each.explained_by == cause)


def tabulate_findings(report: Report, *, all_rows: bool) -> Iterator[Table]:
    """Yield one table with a row per finding; none where there are no findings."""
    pairs = pair_with_statuses(report)
    if pairs:
        rows = (_make_row(finding, status, all_rows=all_rows) for finding, status in pairs)
        yield Table(columns=_COLUMNS, rows=tuple(rows))


def _describe_finding(finding: Finding, *, all_rows: bool) -> Iterator[Element]:
    yield Heading(
        level=3,
        severity=finding.severity,
        title=f"{shorten_text(finding.code)} {shorten_text(finding.name)}",
        detail=f"({finding.confidence} confidence)",
    )
    facts: list[tuple[str, tuple[str, ...]]] = [("what", (shorten_message(finding.message),))]
    if finding.value is not None:
        value = format_value(finding.value)
        if finding.threshold is not None:
            value += f", threshold {format_value(finding.threshold)}"
        facts.append(("value", (value,)))
    if finding.ids:
        facts.append(("where", _list_places(finding, all_rows=all_rows)))
    if finding.explained_by is not None:
        facts.append(("cause", (_describe_cause(finding.explained_by, finding),)))
    facts.append(("do", (shorten_message(finding.advice),)))
    facts.append(("more", (f"normdiag rules {shorten_text(finding.code)}",)))
    yield FactList(facts=tuple(Fact(label=label, lines=lines) for label, lines in facts))


def _describe_cause(cause: Cause, finding: Finding) -> str:
    place = f" at {shorten_text(cause.id)}" if cause.id else ""
    return f"{shorten_text(cause.code)}{place}; alone this is: {finding.severity_alone}"


def _list_places(finding: Finding, *, all_rows: bool) -> tuple[str, ...]:
    return tuple(truncate_lines(map(shorten_text, finding.ids), None if all_rows else _SHOWN))


def _make_row(finding: Finding, status: FindingStatus | None, *, all_rows: bool) -> Row:
    state = ""
    if status is not None:
        state = f"{status.state}: {status.why}" if status.why else ""
        state = state or ("fails" if status.fails else "")
    return Row(
        cells=(
            finding.severity,
            f"{shorten_text(finding.code)} {shorten_text(finding.name)}",
            *(
                "" if number is None else format_value(number)
                for number in (finding.value, finding.threshold)
            ),
            ", ".join(_list_places(finding, all_rows=all_rows)),
            state,
        ),
        style="caution" if status is not None and status.fails else "plain",
    )
