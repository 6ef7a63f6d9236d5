"""What the rules say of the evidence."""

from __future__ import annotations

from typing import Literal

from normdiag.evidence.record import record

Severity = Literal["error", "warning", "info"]
Confidence = Literal["high", "medium", "low"]

SEVERITIES: tuple[Severity, ...] = ("info", "warning", "error")
"""From mild to severe."""

FailOn = Literal["error", "warning", "info", "never"]
"""The severity from which findings fail a check."""


@record
class Finding:
    """A defect: what, where, how bad, how sure, and what to do."""

    code: str
    name: str
    severity: Severity
    confidence: Confidence
    ids: tuple[str, ...]
    """The sites (norms, adds, stacks, parameters) that it is about, worst first."""
    message: str
    value: float | None
    threshold: float | None
    advice: str


@record
class SkippedRule:
    """A rule that could not judge, and why: never a silent pass."""

    code: str
    name: str
    why: str


@record
class Judgement:
    """The outcome of all selected rules on one body of evidence."""

    findings: tuple[Finding, ...] = ()
    skipped: tuple[SkippedRule, ...] = ()
    passed: tuple[str, ...] = ()
    """Codes of the rules that looked and found nothing."""
