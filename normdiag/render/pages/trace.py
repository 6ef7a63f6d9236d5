"""The page of `trace`: outlier tokens, and every token through the layers."""

from __future__ import annotations

from collections.abc import Iterator

from normdiag.render.elements import Element, Heading, Page, Sentence
from normdiag.render.interface import Options
from normdiag.render.pages.inspection import summarise_outcome
from normdiag.render.sections import findings, first_nonfinite, site_tokens, subject, tokens
from normdiag.report.report import Report


def build_trace(report: Report, options: Options) -> Page:
    """Return the heat maps of every sequence, or with `options.sites` those sites in numbers.

    Raises UsageError for a site that the report has not.
    """
    return Page(
        title=report.subject.target,
        outcome=summarise_outcome(report),
        summary=tuple(findings.tabulate_findings(report, all_rows=options.all_rows)),
        elements=tuple(_list_elements(report, options)),
    )


def _list_elements(report: Report, options: Options) -> Iterator[Element]:
    all_rows = options.all_rows
    yield from subject.section(report, all_rows=all_rows)
    yield from first_nonfinite.section(report, all_rows=all_rows)
    if report.trace is None:
        yield Heading(title="Tokens")
        yield Sentence(text="The report holds no tokens: `normdiag trace` records them.")
        return
    for id in options.sites:
        yield from site_tokens.section(report, id, all_rows=all_rows)
    if not options.sites:
        for trace in report.trace:
            yield from tokens.section(report, trace, all_rows=all_rows)
