"""Annotations of GitHub Actions: a line of stdout for each finding, `::error title=..::..`.

GitHub shows ten errors and ten warnings of a step, so the worst come first; what failed the check
comes before what did not.
"""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console

from normdiag.findings import SEVERITIES, Finding
from normdiag.render.escape import spelled, visible
from normdiag.render.few import named
from normdiag.render.interface import Options
from normdiag.render.verdict import headline, standing_of
from normdiag.report.check import Standing
from normdiag.report.report import Report
from normdiag.report.series import Series

_COMMANDS = {"error": "error", "warning": "warning", "info": "notice"}
_PLACES = 4


def render(report: Report, console: Console, options: Options) -> None:
    """Write the findings, the bounds that are not kept, and the verdict."""
    console.file.writelines(_lines(report.subject.target, report))


def render_series(series: Series, console: Console, options: Options) -> None:
    """Write those of every target, and an error for each that has no report."""
    for entry in series.reports:
        if entry.report is not None:
            console.file.writelines(_lines(entry.target, entry.report))
        elif entry.failure is not None:
            console.file.write(_annotation("error", entry.target, entry.failure.what))


def _lines(target: str, report: Report) -> Iterator[str]:
    for finding, standing in sorted(standing_of(report), key=_worst_first):
        yield _finding(target, finding, standing)
    if report.check is None:
        return
    for bounded in report.check.bounds:
        if bounded.state != "kept":
            yield _annotation("error", f"{target}: {bounded.path}", bounded.why)
    severity = "notice" if report.check.exit_code == 0 else "error"
    yield _annotation(severity, target, headline(report))


def _worst_first(pair: tuple[Finding, Standing | None]) -> tuple[bool, int]:
    finding, standing = pair
    return not (standing and standing.fails), -SEVERITIES.index(finding.severity)


def _finding(target: str, finding: Finding, standing: Standing | None) -> str:
    said = [f"{target}: {finding.message}"]
    said += [f"at {named(finding.ids, _PLACES)}"] if finding.ids else []
    said += [standing.why] if standing is not None and standing.why else []
    known = standing is not None and standing.state == "known"
    command = "notice" if known else _COMMANDS[finding.severity]
    text = "; ".join(said)
    return _annotation(command, f"{finding.code} {finding.name}", f"{text}\ndo: {finding.advice}")


def _annotation(command: str, title: str, message: str) -> str:
    lines = "\n".join(spelled(line) for line in message.split("\n"))
    return f"::{command} title={_property(visible(title))}::{_data(lines)}\n"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
