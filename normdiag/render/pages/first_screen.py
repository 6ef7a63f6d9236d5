"""The first screen of `inspect` and `check`: the answers on one terminal screen, 24 lines of 80."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from normdiag.render.elements import Element, FactList, Heading, Page
from normdiag.render.interface import Options
from normdiag.render.pages.inspection import summarise_outcome
from normdiag.render.sections import (
    brief_conditioning,
    brief_findings,
    brief_stacks,
    brief_subject,
    verdict,
)
from normdiag.report.report import Report

LINES = 23
"""Of a terminal of 24, one of which is the prompt's."""
SECTIONS = (
    brief_subject.section,
    brief_findings.section,
    brief_stacks.section,
    brief_conditioning.section,
)


def build_first_screen(report: Report, options: Options) -> Page:
    """Return what is wrong, the stacks, how well conditioned they are and where to see more.

    A report that passed its check is one line, its target and the verdict, besides what the
    verdict was concluded from.
    """
    outcome = summarise_outcome(report)
    is_checked = report.check is not None
    title = Heading(level=1, title=report.subject.target, detail=outcome if is_checked else "")
    elements: list[Element] = [title]
    if report.check is not None:
        elements += verdict.describe_grounds(report, report.check)
    if report.check is None or report.check.exit_code != 0:
        parts = [section(report, all_rows=options.all_rows) for section in SECTIONS]
        elements += [element for part in parts for element in part]
    return Page(
        title=report.subject.target, outcome=outcome, elements=tuple(_use_spare_lines(elements))
    )


def _use_spare_lines(elements: Sequence[Element]) -> Iterator[Element]:
    """Give a second line to facts of several clauses, as long as the screen has room."""
    spare = LINES - sum(map(_count_lines, elements))
    for element in elements:
        if isinstance(element, FactList):
            facts = []
            for fact in element.facts:
                more = int(spare > 0 and len(fact.lines) > 1)
                spare -= more
                facts.append(replace(fact, most_lines=1 + more))
            yield replace(element, facts=tuple(facts))
        else:
            yield element


def _count_lines(element: Element) -> int:
    """Headings of sections have an empty line in front of them."""
    match element:
        case FactList():
            return len(element.facts)
        case Heading(level=2):
            return 2
    return 1
