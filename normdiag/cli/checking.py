"""The work of `check`: a target or a saved report, or several one after the other."""

from __future__ import annotations

import gc
import traceback
from collections.abc import Iterable
from dataclasses import dataclass

import typer

from normdiag.cli.gate import Before, judged
from normdiag.cli.messages import say
from normdiag.cli.options import Observing
from normdiag.config import Settings
from normdiag.errors import ExitCode, NormdiagError
from normdiag.render.escape import visible
from normdiag.render.verdict import entry_headline
from normdiag.report.gate import Gate, checked
from normdiag.report.report import Report
from normdiag.report.saved import load_reports
from normdiag.report.series import Entry, Failure, Series, natural, worst


@dataclass(frozen=True, slots=True)
class Checking:
    """How targets are looked at and judged, the same way for all of them."""

    observing: Observing
    settings: Settings
    context: typer.Context
    gate: Gate
    before: Before

    def one(self, target: str) -> Report | Series:
        """The report of `target` with its verdict; of a file with several reports, all of them."""
        if not target.endswith(".json"):
            from normdiag.cli.observe import Work, observe  # not for a report: it has to be quick

            report = observe(Work.INSPECT, target, self.observing, self.settings, self.context)
            return self._checked(report, target)
        saved = load_reports(target)
        if isinstance(saved, Report):
            return self._checked(judged(saved, self.settings), target)
        return _series(self._again(entry) for entry in saved.reports)

    def several(self, targets: Iterable[str]) -> Series:
        """The reports of all `targets`, in natural order, one model in memory at a time."""
        entries: list[Entry] = []
        for target in sorted(targets, key=natural):
            for entry in self._entries(target):
                say(f"{visible(entry.target)}: {entry_headline(entry)}")
                entries.append(entry)
            if not target.endswith(".json"):
                gc.collect()  # a model may hold itself in a cycle; the next one needs its memory
        return _series(entries)

    def _entries(self, target: str) -> tuple[Entry, ...]:
        """What came of one target: a fault of one must not lose the others."""
        try:
            found = self.one(target)
        except NormdiagError as error:
            failure = Failure(what=error.what, hint=error.hint, exit_code=error.exit_code)
            return (Entry(target=target, failure=failure),)
        except Exception as error:
            if self.context.params["verbose"]:
                say("".join(traceback.format_exception(error)))
            line = "".join(traceback.format_exception_only(error)).strip()
            hint = "this is a fault of normdiag, not of your target: please report it"
            failure = Failure(what=line, hint=hint, exit_code=ExitCode.INTERNAL)
            return (Entry(target=target, failure=failure),)
        return found.reports if isinstance(found, Series) else (Entry(target=target, report=found),)

    def _again(self, entry: Entry) -> Entry:
        if entry.report is None:
            return entry
        report = self._checked(judged(entry.report, self.settings), entry.target)
        return Entry(target=entry.target, report=report)

    def _checked(self, report: Report, target: str) -> Report:
        before = self.before.of(target)
        if before is None and self.before.path is not None:
            name = visible(target)
            say(f"{name}: the baseline has no report of it, so all of its findings are new")
        return checked(report, self.gate, before, str(self.before.path or ""))


def _series(entries: Iterable[Entry]) -> Series:
    reports = tuple(entries)
    return Series(exit_code=worst(reports), reports=reports)
