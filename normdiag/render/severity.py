"""Severities as people read them, in the words of the report and of `--fail-on`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from normdiag.findings import SEVERITIES, Finding, Severity
from normdiag.number_text import format_count


def format_severity_count(many: int, severity: Severity, kind: str = "") -> str:
    """Return such as "2 errors", "1 new or worse warning", "3 info"."""
    if severity == "info":
        return f"{many:,} {kind}info"
    return format_count(many, kind + severity)


def count_by_severity(findings: Iterable[Finding]) -> str:
    """Return how many there are of each severity, the severest first; "" where there are none."""
    counts = Counter(finding.severity for finding in findings)
    return ", ".join(
        format_severity_count(counts[severity], severity)
        for severity in reversed(SEVERITIES)
        if counts[severity]
    )
