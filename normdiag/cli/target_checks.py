"""Check a target or a saved report, or several one after the other."""

from __future__ import annotations

import gc
import traceback
from collections.abc import Iterable
from dataclasses import dataclass

from normdiag.cli.gate import Baselines, judge_report
from normdiag.cli.messages import write_message
from normdiag.errors import ExitCode, NormdiagError
from normdiag.options import JudgingOptions, Options
from normdiag.render.escape import escape_text
from normdiag.render.verdict import format_entry_headline
from normdiag.report.gate import Gate, check_report
from normdiag.report.report import Report
from normdiag.report.saved import load_reports
from normdiag.report.series import (
    Series,
    SeriesEntry,
    TargetFailure,
    natural_sort_key,
    series_exit_code,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetChecker:
    """Inspects, judges and checks targets, all in the same way."""

    options: Options | None
    """Of the pipeline; None where all targets are saved reports."""
    judging: JudgingOptions
    gate: Gate
    baselines: Baselines
    verbose: bool
    quiet: bool
    announces: bool
    """Say on stderr what becomes of each of several targets, since stdout does not."""

    def check_target(self, target: str) -> Report | Series:
        """Return the report of `target` with its verdict; of a file of several reports, all."""
        if not target.endswith(".json"):
            # Imported here, since a check of saved reports has to be quick.
            from normdiag.cli.run_pipeline import Work, run_pipeline

            options = self.options or Options()
            report = run_pipeline(
                Work.INSPECT, target, options, verbose=self.verbose, quiet=self.quiet
            )
            return self._add_verdict(report, target)
        saved = load_reports(target)
        if isinstance(saved, Report):
            return self._add_verdict(judge_report(saved, self.judging), target)
        return _build_series(self._check_entry(entry) for entry in saved.reports)

    def check_targets(self, targets: Iterable[str]) -> Series:
        """Check all `targets`, in natural order, with one model in memory at a time."""
        entries: list[SeriesEntry] = []
        for target in sorted(targets, key=natural_sort_key):
            for entry in self._check_or_record_failure(target):
                if self.announces:
                    write_message(f"{escape_text(entry.target)}: {format_entry_headline(entry)}")
                entries.append(entry)
            if not target.endswith(".json"):
                gc.collect()  # a model may hold itself in a cycle; the next one needs its memory
        return _build_series(entries)

    def _check_or_record_failure(self, target: str) -> tuple[SeriesEntry, ...]:
        """Return the entries of one target; an error of one must not lose the others."""
        try:
            checked = self.check_target(target)
        except NormdiagError as error:
            failure = TargetFailure(what=error.what, hint=error.hint, exit_code=error.exit_code)
            return (SeriesEntry(target=target, failure=failure),)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # code of a target may raise SystemExit where none is called
            if self.verbose:
                write_message("".join(traceback.format_exception(error)))
            line = "".join(traceback.format_exception_only(error)).strip()
            hint = "this is an internal error of normdiag, not of your target: please report it"
            failure = TargetFailure(what=line, hint=hint, exit_code=ExitCode.INTERNAL)
            return (SeriesEntry(target=target, failure=failure),)
        if isinstance(checked, Series):
            return checked.reports
        return (SeriesEntry(target=target, report=checked),)

    def _check_entry(self, entry: SeriesEntry) -> SeriesEntry:
        if entry.report is None:
            return entry
        report = self._add_verdict(judge_report(entry.report, self.judging), entry.target)
        return SeriesEntry(target=entry.target, report=report)

    def _add_verdict(self, report: Report, target: str) -> Report:
        baseline = self.baselines.find_report(target)
        if baseline is None and self.baselines.path is not None:
            name = escape_text(target)
            write_message(f"{name}: not in the baseline, so all of its findings count as new")
        return check_report(report, self.gate, baseline, str(self.baselines.path or ""))


def _build_series(entries: Iterable[SeriesEntry]) -> Series:
    reports = tuple(entries)
    return Series(exit_code=series_exit_code(reports), reports=reports)
