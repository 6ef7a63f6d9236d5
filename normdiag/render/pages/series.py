"""The page of several targets: one table of all, then each."""

from __future__ import annotations

from collections.abc import Iterator

from normdiag.findings import SEVERITIES
from normdiag.number_text import format_count
from normdiag.render.elements import Element, Fact, FactList, Heading, Page, Sentence
from normdiag.render.escape import shorten_text
from normdiag.render.interface import Options
from normdiag.render.sections import findings, verdict
from normdiag.render.series_table import tabulate_series
from normdiag.render.severity import count_by_severity
from normdiag.render.verdict import format_entry_headline, pair_with_statuses
from normdiag.report.report import Report
from normdiag.report.series import Series, SeriesEntry


def build_series(series: Series, options: Options) -> Page:
    """Return the table of targets, and a page for each."""
    title = format_count(len(series.reports), "target")
    return Page(
        title=title,
        outcome="",
        elements=(
            Heading(level=1, title=title, is_lead=True),
            tabulate_series(series.reports),
        ),
        entries=tuple(_build_entry(entry, options) for entry in series.reports),
    )


def _build_entry(entry: SeriesEntry, options: Options) -> Page:
    outcome = format_entry_headline(entry)
    if entry.report is None:
        hint = tuple(_list_hint(entry))
        return Page(title=entry.target, outcome=outcome, summary=hint, elements=(), brief=hint)
    report, all_rows = entry.report, options.all_rows
    sections = (findings.section, verdict.section)
    brief = tuple(_list_findings(report, all_rows=all_rows))
    check = report.check
    return Page(
        title=entry.target,
        outcome=outcome or count_by_severity(report.findings) or "no findings",
        summary=tuple(findings.tabulate_findings(report, all_rows=all_rows)),
        elements=tuple(each for part in sections for each in part(report, all_rows=all_rows)),
        brief=brief,
        is_settled=check is not None and check.exit_code == 0 and not (brief or check.baseline),
    )


def _list_hint(entry: SeriesEntry) -> Iterator[Element]:
    if entry.failure is not None and entry.failure.hint is not None:
        yield Sentence(text=f"Hint: {entry.failure.hint}")


def _list_findings(report: Report, *, all_rows: bool) -> Iterator[Element]:
    """Yield the findings that failed the check, or all; the severest first."""
    pairs = [
        (finding, status)
        for finding, status in pair_with_statuses(report)
        if all_rows or (status is not None and status.fails)
    ]
    pairs.sort(key=lambda pair: -SEVERITIES.index(pair[0].severity))
    facts = []
    for finding, status in pairs:
        why = f" ({shorten_text(status.why)})" if status is not None and status.why else ""
        text = f"{finding.code} {finding.name}: {finding.message}{why}"
        facts.append(Fact(label=finding.severity, lines=(text,)))
    if facts:
        yield FactList(facts=tuple(facts))
