"""The findings, a line each, the severest first."""

from __future__ import annotations

from collections.abc import Iterator

from normdiag.findings import SEVERITIES, Finding
from normdiag.number_text import format_count, format_value
from normdiag.render.elements import Element, Fact, FactList, Heading
from normdiag.render.escape import shorten_message, shorten_text
from normdiag.render.severity import count_by_severity
from normdiag.report.report import Report

_SHOWN = 4


def section(report: Report, *, all_rows: bool) -> Iterator[Element]:
    """Yield how many findings there are, and the first ones."""
    findings = sorted(report.findings, key=lambda each: -SEVERITIES.index(each.severity))
    skipped = len(report.rules.skipped)
    counts = count_by_severity(findings) or "none"
    passed = f"{format_count(len(report.rules.passed), 'rule')} passed, {skipped:,} skipped"
    yield Heading(title="Findings", detail=f"{counts}; {passed}")
    shown = findings if len(findings) <= _SHOWN else findings[: _SHOWN - 1]
    facts = [
        Fact(
            label=finding.severity,
            lines=tuple(_describe_finding(finding)),
            severity=finding.severity,
        )
        for finding in shown
    ]
    if len(shown) < len(findings):
        rest = count_by_severity(findings[len(shown) :])
        facts.append(Fact(label="more", lines=(f"{rest}: see --full",)))
    if facts:
        yield FactList(facts=tuple(facts), has_clauses=True)


def _describe_finding(finding: Finding) -> Iterator[str]:
    """Yield name, value and threshold, then the worst site; or the message of one without these."""
    text = f"{shorten_text(finding.code)} {shorten_text(finding.name)}"
    # a threshold of 0 only says that there is something to count
    if finding.value is None or not finding.threshold or not finding.ids:
        yield text
        yield shorten_message(finding.message)
    else:
        value, threshold = format_value(finding.value), format_value(finding.threshold)
        yield f"{text} {value} (threshold {threshold})"
        others = f" and {len(finding.ids) - 1:,} more" if len(finding.ids) > 1 else ""
        yield f"{shorten_text(finding.ids[0]) or 'the model'}{others}"
