"""Findings of the rules."""

from __future__ import annotations

from dataclasses import field
from typing import Literal

from normdiag.evidence.record import record

Severity = Literal["error", "warning", "info"]
Confidence = Literal["high", "medium", "low"]

SEVERITIES: tuple[Severity, ...] = ("info", "warning", "error")
"""From mild to severe."""

FailOn = Literal["error", "warning", "info", "never"]
"""The severity from which findings fail a check."""


@record
class Cause:
    """The finding that explains another one: its code and first site ("" where it has none)."""

    code: str
    id: str


@record
class Finding:
    """A defect: what and where it is, its severity, the confidence, and advice."""

    code: str
    name: str
    severity: Severity
    confidence: Confidence
    ids: tuple[str, ...]
    """Ids of the sites (norms, adds, stacks, parameters) concerned, worst first."""
    message: str
    value: float | None
    threshold: float | None
    advice: str
    explained_by: Cause | None = None
    """The finding of which this one is a consequence."""
    severity_alone: Severity | None = None
    """With `explained_by`: what the severity would be without that cause."""


@record
class SkippedRule:
    """A rule that was skipped because evidence is missing, and why."""

    code: str
    name: str
    why: str


@record
class NearestLimit:
    """A quantity that no rule reports, and the threshold of one that it would be reported at."""

    code: str
    name: str
    """Of the rule."""
    quantity: str
    """What the threshold is compared with, as its unit says it."""
    value: float
    """That of the site which would be reported first, to nine digits."""
    limit: float
    nearness: float
    """value / limit, or limit / value where values below the limit are reported: 1 at it."""
    threshold: str = ""
    """The name under which the limit is set."""
    ids: tuple[str, ...] = ()
    """The sites that would be reported there."""

    @property
    def healthy_side(self) -> str:
        """On which side of the limit its values are healthy, since no rule reports this one."""
        return "at most" if self.value <= self.limit else "at least"


@record
class Judgement:
    """The outcome of all selected rules for one target."""

    findings: tuple[Finding, ...] = ()
    skipped: tuple[SkippedRule, ...] = ()
    passed: tuple[str, ...] = ()
    """Codes of the rules that ran without a finding."""
    nearest: tuple[NearestLimit, ...] = ()
    """Of the rules that passed, the thresholds within reach of being passed, nearest first."""
    thresholds: dict[str, dict[str, float]] = field(default_factory=dict)
    """Code -> threshold -> value, of the thresholds that the user set: others had their default."""
