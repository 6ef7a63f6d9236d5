"""The thresholds that a chart draws: those of the installed rules, and those that findings passed.

A report holds a threshold only where a finding passed it, and that one may have been set by the
user; so both are drawn where they differ.
"""

from __future__ import annotations

from collections.abc import Iterator

from normdiag.charts.depth_chart import Level
from normdiag.number_text import format_setting
from normdiag.report.report import Report
from normdiag.rules.registry import find_rule


def read_default(code: str, name: str) -> float:
    """Return the default of one threshold of a rule."""
    return next(float(each.default) for each in find_rule(code).thresholds if each.name == name)


def list_levels(report: Report, code: str, *names: str, below: bool = False) -> tuple[Level, ...]:
    """Return the thresholds `names` of a rule as lines of a chart.

    `below` says that values below them are reported.
    """
    side = "below" if below else "above"
    defaults = {read_default(code, name): name for name in names}
    lines = [
        Level(value=value, text=f"{code} {side} {format_setting(value)}") for value in defaults
    ]
    lines += [
        Level(value=value, text=f"{code} {side} {format_setting(value)} (set for this report)")
        for value in dict.fromkeys(_read_passed(report, code))
        if value not in defaults
    ]
    return tuple(lines)


def _read_passed(report: Report, code: str) -> Iterator[float]:
    for finding in report.findings:
        if finding.code == code and finding.threshold is not None:
            yield finding.threshold
