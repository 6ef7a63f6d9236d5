"""The page of `inspect` and `check`: what was loaded, what it is, how it does, what is wrong."""

from __future__ import annotations

from normdiag.render.elements import Page
from normdiag.render.interface import Options
from normdiag.render.sections import (
    attention_logits,
    blocks,
    coverage,
    findings,
    first_nonfinite,
    gradients,
    invariances,
    norm_swap,
    norms,
    precision,
    stacks,
    stream,
    subject,
    tensors,
    verdict,
)
from normdiag.render.severity import count_by_severity
from normdiag.render.verdict import format_headline
from normdiag.report.report import Report

SECTIONS = (
    subject.section,
    tensors.section,
    first_nonfinite.section,
    stacks.section,
    stream.section,
    norms.section,
    blocks.section,
    gradients.section,
    invariances.section,
    norm_swap.section,
    attention_logits.section,
    precision.section,
    findings.section,
    coverage.section,
    verdict.section,
)


def build_inspection(report: Report, options: Options) -> Page:
    """Return the sections of a report, to be read from top to bottom."""
    parts = [section(report, all_rows=options.all_rows) for section in SECTIONS]
    return Page(
        title=report.subject.target,
        outcome=summarise_outcome(report),
        summary=tuple(findings.tabulate_findings(report, all_rows=options.all_rows)),
        elements=tuple(element for part in parts for element in part),
    )


def summarise_outcome(report: Report) -> str:
    """Return the verdict of a report, or how many findings it has."""
    return format_headline(report) or count_by_severity(report.findings) or "no findings"
