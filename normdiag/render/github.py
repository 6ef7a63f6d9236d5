"""Annotations of GitHub Actions: a line of stdout for each finding, `::error title=..::..`.

GitHub shows ten errors and ten warnings of a step, so the worst come first; what failed the check
comes before what did not.
"""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console

from normdiag.findings import SEVERITIES, Finding
from normdiag.render.escape import escape_in_full, escape_text
from normdiag.render.interface import Options
from normdiag.render.truncated_lines import join_truncated
from normdiag.render.verdict import format_headline, pair_with_statuses
from normdiag.report.check import FindingStatus
from normdiag.report.report import Report
from normdiag.report.series import Series

_COMMANDS = {"error": "error", "warning": "warning", "info": "notice"}
_SHOWN = 4


def write_report(report: Report, console: Console, options: Options) -> None:
    """Write the findings, the bounds that are not kept, and the verdict."""
    console.file.writelines(_format_report(report.subject.target, report))


def write_series(series: Series, console: Console, options: Options) -> None:
    """Write those of every target, and an error for each that has no report."""
    for entry in series.reports:
        if entry.report is not None:
            console.file.writelines(_format_report(entry.target, entry.report))
        elif entry.failure is not None:
            console.file.write(_format_annotation("error", entry.target, entry.failure.what))


def _format_report(target: str, report: Report) -> Iterator[str]:
    for finding, status in sorted(pair_with_statuses(report), key=_severity_key):
        yield _format_finding(target, finding, status)
    if report.check is None:
        return
    for bound in report.check.bounds:
        if bound.state != "kept":
            yield _format_annotation("error", f"{target}: {bound.path}", bound.why)
    severity = "notice" if report.check.exit_code == 0 else "error"
    yield _format_annotation(severity, target, format_headline(report))


def _severity_key(pair: tuple[Finding, FindingStatus | None]) -> tuple[bool, int]:
    finding, status = pair
    return not (status and status.fails), -SEVERITIES.index(finding.severity)


def _format_finding(target: str, finding: Finding, status: FindingStatus | None) -> str:
    parts = [f"{target}: {finding.message}"]
    parts += [f"at {join_truncated(finding.ids, _SHOWN)}"] if finding.ids else []
    parts += [status.why] if status is not None and status.why else []
    known = status is not None and status.state == "known"
    command = "notice" if known else _COMMANDS[finding.severity]
    text = "; ".join(parts)
    return _format_annotation(
        command, f"{finding.code} {finding.name}", f"{text}\ndo: {finding.advice}"
    )


def _format_annotation(command: str, title: str, message: str) -> str:
    lines = "\n".join(escape_in_full(line) for line in message.split("\n"))
    return f"::{command} title={_escape_property(escape_text(title))}::{_escape_data(lines)}\n"


def _escape_data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _escape_property(text: str) -> str:
    return _escape_data(text).replace(":", "%3A").replace(",", "%2C")
