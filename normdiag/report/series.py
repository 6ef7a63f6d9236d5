"""A series: the reports of several targets that were checked in one run."""

from __future__ import annotations

import re
from pathlib import Path

from normdiag.errors import ExitCode
from normdiag.evidence.record import record
from normdiag.report import atomic, v1
from normdiag.report.report import Report

# The exit code of a series is the last of these that occurs.
_FROM_MILD_TO_BAD = (
    ExitCode.PASSED,
    ExitCode.INCOMPLETE,
    ExitCode.GATE_FAILED,
    ExitCode.USAGE,
    ExitCode.TARGET,
    ExitCode.INTERNAL,
)


@record
class TargetFailure:
    """Why a target has no report."""

    what: str
    hint: str | None
    exit_code: int


@record
class SeriesEntry:
    """One target with its report or failure."""

    target: str
    """As given by the user."""
    report: Report | None = None
    failure: TargetFailure | None = None


@record
class Series:
    """The reports of several targets, in natural order: ckpt-2 before ckpt-10."""

    schema_version: str = v1.VERSION
    exit_code: int
    """The most severe of all targets."""
    reports: tuple[SeriesEntry, ...]

    def save(self, path: str | Path) -> None:
        """Write the JSON document, whole or not at all."""
        atomic.write_atomically(Path(path), v1.dump_record(self))


def entry_exit_code(entry: SeriesEntry) -> ExitCode:
    """The exit code of one target."""
    if entry.failure is not None:
        return ExitCode(entry.failure.exit_code)
    check = entry.report.check if entry.report else None
    return ExitCode(check.exit_code) if check else ExitCode.PASSED


def series_exit_code(entries: tuple[SeriesEntry, ...]) -> ExitCode:
    """The exit code of several targets."""
    return max(map(entry_exit_code, entries), key=_FROM_MILD_TO_BAD.index, default=ExitCode.PASSED)


def natural_sort_key(name: str) -> str:
    """A sort key in which numbers within names compare as numbers."""
    return re.sub(r"[0-9]+", lambda digits: digits[0].zfill(20), name)
