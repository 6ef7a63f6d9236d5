"""The main numbers of several targets, such as the checkpoints of one run, in one table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from normdiag.number_text import UNKNOWN, format_number, format_percent
from normdiag.render.elements import Column, Name, Number, Row, Table
from normdiag.render.escape import shorten_text
from normdiag.render.severity import count_by_severity
from normdiag.render.verdict import name_outcome
from normdiag.report.paths import parse_path, worst_value
from normdiag.report.report import Report
from normdiag.report.series import SeriesEntry

NUMBERS = {
    "growth": parse_path("measurements.growth.total"),
    "kappa": parse_path("measurements.norms.jacobian.kappa.max"),
    "eps share": parse_path("measurements.norms.eps_share.max"),
}
"""Heading -> the path whose largest value stands below it."""


_WRITERS = {"eps share": format_percent}
_MEANINGS = {
    "growth": "of the stream norm, last add / first add",
    "kappa": "condition number of a norm's Jacobian",
    "eps share": "eps / (variance + eps) of a norm's input; each is the largest of the target",
}
_COLUMNS = (
    Column(title="target"),
    *(Column(title=name, align="right", meaning=_MEANINGS[name]) for name in NUMBERS),
    Column(title="findings"),
    Column(title="changes", meaning="findings new (+) and gone (-) since the row above"),
    Column(title="verdict"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesRow:
    """One target: the largest of each number, its findings, and what changed since the last one."""

    target: str
    numbers: dict[str, float | None]
    findings: str
    changes: str
    """Codes that are new (+) and gone (-) since the target before; UNKNOWN for the first."""
    verdict: str


def iterate_series_rows(entries: Iterable[SeriesEntry]) -> Iterator[SeriesRow]:
    """Yield a row per target, in order."""
    before: Report | None = None
    for entry in entries:
        report = entry.report
        yield SeriesRow(
            target=shorten_text(entry.target),
            numbers={name: _largest_number(report, name) for name in NUMBERS},
            findings=(count_by_severity(report.findings) or "none") if report else UNKNOWN,
            changes=_format_changes(before, report) if before and report else UNKNOWN,
            verdict=_format_outcome(entry),
        )
        before = report or before


def tabulate_series(entries: Iterable[SeriesEntry]) -> Table:
    """Return the same as a table for people."""
    rows = (
        Row(
            cells=(
                Name(text=row.target),
                *(
                    Number(value=value, write=_WRITERS.get(name, format_number))
                    for name, value in row.numbers.items()
                ),
                row.findings,
                row.changes,
                row.verdict,
            )
        )
        for row in iterate_series_rows(entries)
    )
    return Table(columns=_COLUMNS, rows=tuple(rows))


def _largest_number(report: Report | None, name: str) -> float | None:
    largest = worst_value(NUMBERS[name].read_values(report), "max") if report else None
    return largest.number if largest else None


def _format_changes(before: Report, now: Report) -> str:
    old, new = ({finding.code for finding in report.findings} for report in (before, now))
    added = [f"+{shorten_text(code)}" for code in sorted(new - old)]
    gone = [f"-{shorten_text(code)}" for code in sorted(old - new)]
    return " ".join(added + gone) or "same"


def _format_outcome(entry: SeriesEntry) -> str:
    if entry.failure is not None:
        return f"no report (exit {entry.failure.exit_code})"
    check = entry.report.check if entry.report else None
    return name_outcome(check) if check else ""
