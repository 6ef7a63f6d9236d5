"""The thresholds that a chart draws: those that judged the report.

A report holds the thresholds that the user set; the others are the defaults of the installed rules.
"""

from __future__ import annotations

from normdiag.charts.depth_chart import Level
from normdiag.number_text import format_setting
from normdiag.report.report import Report
from normdiag.rules.registry import find_rule


def read_limit(report: Report, code: str, name: str) -> float:
    """Return one threshold of a rule as it judged the report."""
    held = report.rules.thresholds.get(code, {}).get(name)
    return read_default(code, name) if held is None else held


def read_default(code: str, name: str) -> float:
    """Return the default of one threshold of a rule."""
    return next(float(each.default) for each in find_rule(code).thresholds if each.name == name)


def list_levels(report: Report, code: str, *names: str, below: bool = False) -> tuple[Level, ...]:
    """Return the thresholds `names` of a rule as lines of a chart.

    `below` says that values below them are reported.
    """
    side = "below" if below else "above"
    lines: dict[float, str] = {}
    for name in names:
        limit = read_limit(report, code, name)
        origin = _describe_origin(report, code, name)
        lines.setdefault(limit, f"{code} {side} {format_setting(limit)}{origin}")
    return tuple(Level(value=value, text=text) for value, text in lines.items())


def _describe_origin(report: Report, code: str, name: str) -> str:
    if name not in report.rules.thresholds.get(code, {}):
        return ""
    return f" (set; default {format_setting(read_default(code, name))})"
