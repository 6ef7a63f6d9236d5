"""From what was typed and what is set, to the gate of a check and its baseline."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from normdiag.cli.options import FailOn, Gating
from normdiag.config import Settings
from normdiag.errors import UsageError
from normdiag.report.baseline import MARGIN
from normdiag.report.bounds import Bound, Side
from normdiag.report.check import Ignored
from normdiag.report.gate import Gate
from normdiag.report.paths import parse
from normdiag.report.report import Report
from normdiag.report.saved import load_reports
from normdiag.report.series import Series
from normdiag.rules.engine import judge


def gate(gating: Gating, settings: Settings) -> Gate:
    """What must hold. Raises UsageError for a bound that cannot be meant, before any work."""
    margin = settings.margin if gating.margin is None else gating.margin
    if margin is not None and not math.isfinite(margin):
        raise UsageError(f"--margin {margin} is not finite", "give a share, such as 0.1")
    return Gate(
        fail_on=FailOn(settings.fail_on or FailOn.ERROR).value,
        require_complete=bool(settings.require_complete),
        bounds=(
            *_bounds("max", gating.at_most, settings.max),
            *_bounds("min", gating.at_least, settings.min),
        ),
        margin=MARGIN if margin is None else margin,
        ignored=tuple(
            Ignored(selector=selector, reason=reason)
            for selector, reason in settings.ignore.items()
        ),
    )


def judged(report: Report, settings: Settings) -> Report:
    """A saved report as the rules and thresholds of now judge it."""
    evidence = report.to_evidence()
    judgement = judge(
        evidence,
        select=settings.select or (),
        ignore=settings.ignore,
        thresholds=settings.thresholds,
    )
    return Report.from_evidence(evidence, judgement)


@dataclass(frozen=True, slots=True)
class Before:
    """The baseline: one report for all targets, or one for each, found by its name."""

    path: Path | None
    whole: Report | None = None
    by_target: Mapping[str, Report] = field(default_factory=dict)

    def of(self, target: str) -> Report | None:
        """The report to compare `target` with; None where there is none."""
        return self.whole or self.by_target.get(target)


def before(path: Path | None, settings: Settings) -> Before:
    """Read the baseline and judge it by the rules of now. Raises ReportError, UsageError."""
    if path is None:
        return Before(None)
    saved = load_reports(path)
    if isinstance(saved, Series):
        found = {
            entry.target: judged(entry.report, settings)
            for entry in saved.reports
            if entry.report is not None
        }
        return Before(path, by_target=found)
    return Before(path, whole=judged(saved, settings))


def _bounds(side: Side, typed: Iterable[str] | None, under: Mapping[str, float]) -> list[Bound]:
    limits = dict(under) | dict(_limit(side, text) for text in typed or ())
    return [Bound(parse(path), side, limit) for path, limit in limits.items()]


def _limit(side: Side, text: str) -> tuple[str, float]:
    path, _, number = text.rpartition("=")
    try:
        limit = float(number)
    except ValueError as error:
        raise UsageError(
            f"--{side} {text!r} does not end in =NUMBER",
            f"write --{side} measurements.growth.total=50",
        ) from error
    if not path or not math.isfinite(limit):
        what = "has no path" if not path else f"has a limit that is not finite: {number}"
        raise UsageError(
            f"--{side} {text!r} {what}", f"write --{side} measurements.growth.total=50"
        )
    return path, limit
