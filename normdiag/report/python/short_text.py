"""A report in at most ten lines, as Python shows it."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from normdiag.findings import SEVERITIES, Finding
from normdiag.number_text import format_count
from normdiag.printable_text import escape_in_full
from normdiag.report.python.stack_views import describe_stack

if TYPE_CHECKING:
    from normdiag.report.report import Report

_SHOWN, _WIDTH = 2, 110
"""Stacks and findings that are named; characters of a line."""


def describe_report(report: Report) -> str:
    """Return verdict, model, stacks and findings in at most ten lines."""
    views = report.stacks.values()
    stacks = [describe_stack(view) for view in list(views)[:_SHOWN]]
    stacks += _count_others(len(views), "stack")
    found = [describe_finding_line(each) for each in report.findings[:_SHOWN]]
    found += _count_others(len(report.findings), "finding")
    more = "more: report.summary(), summary(full=True), to_frame(..), plot.<chart>()"
    lines = [describe_verdict(report), describe_subject(report), *stacks, *found, more]
    first, *others = (shorten_line(line) for line in lines)
    return "\n".join([f"<normdiag report: {first}", *(f"  {line}" for line in others)]) + ">"


def name_verdict(report: Report) -> str:
    """Return "passed", "failed" or "incomplete" of a check; without one the worst severity."""
    if report.check is not None:
        return {0: "passed", 1: "failed"}.get(report.check.exit_code, "incomplete")
    severities = {finding.severity for finding in report.findings}
    return next((each for each in reversed(SEVERITIES) if each in severities), "no findings")


def describe_verdict(report: Report) -> str:
    """Return the target, its verdict, and how many findings of which severity it has."""
    counts = Counter(finding.severity for finding in report.findings)
    many = [
        f"{counts[each]} info" if each == "info" else format_count(counts[each], each)
        for each in reversed(SEVERITIES)
        if counts[each]
    ]
    outcome = "" if report.check is None else f"{name_verdict(report)}, "
    found = ", ".join(many) or "no findings"
    return escape_in_full(f"{report.subject.target}: {outcome}{found}")


def describe_subject(report: Report) -> str:
    """Return class, size, dtype and device of the model, and how many tokens it was run on."""
    subject = report.subject
    size = None if subject.parameters is None else format_count(subject.parameters, "parameter")
    model = [subject.class_, size, subject.dtype, subject.device]
    inputs = subject.probe
    run = f"{format_count(inputs.sequences, 'sequence')}, {format_count(inputs.tokens, 'token')}"
    return escape_in_full(f"{', '.join(part for part in model if part)}; {run}")


def describe_finding_line(finding: Finding) -> str:
    """Return code, name, severity and message of one finding."""
    return escape_in_full(f"{finding.code} {finding.name} ({finding.severity}): {finding.message}")


def shorten_line(text: str) -> str:
    """Return the line, without its end where it is long."""
    return text if len(text) <= _WIDTH else f"{text[: _WIDTH - 3]}..."


def _count_others(many: int, noun: str) -> list[str]:
    return [f"and {format_count(many - _SHOWN, f'more {noun}')}"] if many > _SHOWN else []
