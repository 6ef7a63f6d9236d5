"""The findings, and the rules that could not judge."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import RenderableType
from rich.text import Text

from normdiag.findings import SEVERITIES, Finding
from normdiag.render.escape import visible
from normdiag.render.few import few
from normdiag.render.page import QUIET, Page, facts, heading, prose
from normdiag.render.severity import STYLES, tally
from normdiag.render.units import whole
from normdiag.report.report import Report

_PLACES = 4


def section(report: Report, page: Page) -> Iterator[RenderableType]:
    """Yield the findings, the severest first, and what was not judged."""
    worst_first = sorted(report.findings, key=lambda finding: -SEVERITIES.index(finding.severity))
    yield heading("Findings", tally(worst_first) or "none")
    for finding in worst_first:
        yield from _finding(finding, page)
    rules = report.rules
    if rules.passed:
        codes = " ".join(visible(code) for code in rules.passed)
        yield prose(f"Looked and found nothing: {codes}", QUIET)
    for skip in rules.skipped:
        yield prose(f"Not judged: {visible(skip.code)} {visible(skip.name)}: {visible(skip.why)}")
    if not (worst_first or rules.passed or rules.skipped):
        yield prose("No rule was selected.")


def _finding(finding: Finding, page: Page) -> Iterator[RenderableType]:
    yield prose(
        Text.assemble(
            (finding.severity, STYLES[finding.severity]),
            f"  {visible(finding.code)} ",
            (visible(finding.name), "bold"),
            f"  ({finding.confidence} confidence)",
        )
    )
    rows = [("what", visible(finding.message))]
    if finding.value is not None and finding.threshold is not None:
        rows.append(("value", f"{whole(finding.value)}, threshold {whole(finding.threshold)}"))
    elif finding.value is not None:
        rows.append(("value", whole(finding.value)))
    if finding.ids:
        rows.append(("where", "\n".join(few(map(visible, finding.ids), page.most(_PLACES)))))
    rows.append(("do", visible(finding.advice)))
    rows.append(("more", f"normdiag rules {visible(finding.code)}"))
    yield facts(rows, indent=4)
