"""How the numbers that matter move over several targets, such as the checkpoints of one run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from normdiag.render.escape import visible
from normdiag.render.severity import tally
from normdiag.render.units import UNKNOWN
from normdiag.render.verdict import outcome
from normdiag.report.paths import parse, worst
from normdiag.report.report import Report
from normdiag.report.series import Entry

NUMBERS = {
    "growth": parse("measurements.growth.total"),
    "kappa": parse("measurements.norms.jacobian.kappa.max"),
    "eps share": parse("measurements.norms.eps_share.max"),
}
"""Heading -> the path whose largest value stands below it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One target: the worst of each number, its findings, and what changed since the one before."""

    target: str
    numbers: dict[str, float | None]
    findings: str
    moved: str
    """Codes that came (+) and went (-) since the target before; UNKNOWN for the first."""
    verdict: str


def rows(entries: Iterable[Entry]) -> Iterator[Row]:
    """Yield a row per target, in the order that they have."""
    before: Report | None = None
    for entry in entries:
        report = entry.report
        yield Row(
            target=visible(entry.target),
            numbers={name: _worst(report, name) for name in NUMBERS},
            findings=(tally(report.findings) or "none") if report else UNKNOWN,
            moved=_moved(before, report) if before and report else UNKNOWN,
            verdict=_verdict(entry),
        )
        before = report or before


def _worst(report: Report | None, name: str) -> float | None:
    found = worst(NUMBERS[name].values(report), "max") if report else None
    return found.number if found else None


def _moved(before: Report, now: Report) -> str:
    old, new = ({finding.code for finding in report.findings} for report in (before, now))
    came = [f"+{visible(code)}" for code in sorted(new - old)]
    return " ".join(came + [f"-{visible(code)}" for code in sorted(old - new)]) or "same"


def _verdict(entry: Entry) -> str:
    if entry.failure is not None:
        return f"no report (exit {entry.failure.exit_code})"
    check = entry.report.check if entry.report else None
    return outcome(check) if check else ""
