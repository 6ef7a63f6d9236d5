"""A checked report in which every text that comes from outside is one given string."""

from __future__ import annotations

from dataclasses import replace

from normdiag.evidence.coverage import Coverage, SkippedMeasurement
from normdiag.findings import Finding, SkippedRule
from normdiag.report.baseline import MARGIN
from normdiag.report.bounds import Bound
from normdiag.report.check import IgnoredRule
from normdiag.report.gate import Gate, check_report
from normdiag.report.paths import parse_path
from normdiag.report.report import Report, RuleOutcomes
from normdiag.report.series import Series, SeriesEntry, TargetFailure
from tests.factories import subject
from tests.hostile import HOSTILE
from tests.reports import llama

TEXTS = (
    HOSTILE,
    "::error title=x::owned",
    "\n::set-output name=a::b\r\n",
    "]]></failure><evil/>",
    "\x00\x08\x1b\ufffe\ud800",
    "](http://evil) [a](javascript:x) ![i](http://x/y.png)",
    "<img src=x onerror=alert(1)> <!-- </details>",
    "`code` ``` | a | b |\n|---|---|",
    "@everyone #1 org/repo#2 www.evil.com http://evil.com",
    "{0} {{1}} %25 %0A",
    "=cmd|' /C calc'!A0",
    "# heading\n* list\n1. one\n===\n---",
    "**bold** __bold__ ~~gone~~ $x$ \\",
    "",
    " ",
    "a" * 5000,
)


def report(text: str) -> Report:
    """Three findings, a rule that was skipped, a bound on each side, a baseline with one more."""
    findings = tuple(
        Finding(
            code=text,
            name=text,
            severity=severity,
            confidence="low",
            ids=(text, f"{text}.{severity}"),
            message=text,
            value=value,
            threshold=None,
            advice=text,
        )
        for severity, value in (("error", float("nan")), ("warning", 2.0), ("info", None))
    )
    made = replace(
        llama(2),
        subject=subject(text),
        findings=findings,
        rules=RuleOutcomes(passed=(text,), skipped=(SkippedRule(code=text, name=text, why=text),)),
        coverage=Coverage(skipped=(SkippedMeasurement(what=text, why=text),)),
    )
    gate = Gate(
        fail_on="warning",
        require_complete=True,
        margin=MARGIN,
        bounds=tuple(
            Bound(parse_path(path), "max", 1.0)
            for path in (
                "measurements.growth.total",
                "measurements.gradients.global_norm",
                "findings.value",
            )
        ),
        ignored=(IgnoredRule(selector=text, reason=text),),
    )
    before = replace(made, findings=(findings[1], replace(findings[2], ids=("gone",))))
    return check_report(made, gate, before, text)


def series(text: str) -> Series:
    """A report, a target without one, and a report again."""
    entry = SeriesEntry(target=text, report=report(text))
    broken = SeriesEntry(target=text, failure=TargetFailure(what=text, hint=text, exit_code=3))
    return Series(exit_code=3, reports=(entry, broken, entry))
