"""Severities as people read them, in the words of the report and of `--fail-on`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from normdiag.findings import SEVERITIES, Finding, Severity
from normdiag.render.units import count

STYLES: dict[Severity, str] = {"error": "bold red", "warning": "bold yellow", "info": "bold cyan"}


def counted(many: int, severity: Severity, kind: str = "") -> str:
    """Return such as "2 errors", "1 new or worse warning", "3 info"."""
    return f"{many:,} {kind}info" if severity == "info" else count(many, kind + severity)


def tally(findings: Iterable[Finding]) -> str:
    """Return how many there are of each severity, the severest first; "" where there are none."""
    found = Counter(finding.severity for finding in findings)
    return ", ".join(
        counted(found[severity], severity) for severity in reversed(SEVERITIES) if found[severity]
    )
