"""The first screen of `inspect` and `check`: the answers on one terminal screen, 24 lines of 80."""

from __future__ import annotations

from normdiag.render.elements import Element, Heading, Page
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
        title=report.subject.target, outcome=outcome, elements=tuple(elements), most_lines=LINES
    )
