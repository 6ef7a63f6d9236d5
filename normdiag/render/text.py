"""A report as text for people: what was loaded, what it is, how it does, what is wrong with it."""

from __future__ import annotations

from rich.console import Console, Group

from normdiag.render.interface import Options
from normdiag.render.page import Page
from normdiag.render.plain import Plain
from normdiag.render.sections import (
    blocks,
    coverage,
    findings,
    gradients,
    invariances,
    nonfinite,
    norms,
    precision,
    stacks,
    stream,
    subject,
    tensors,
    verdict,
)
from normdiag.report.report import Report

SECTIONS = (
    subject.section,
    tensors.section,
    nonfinite.section,
    stacks.section,
    stream.section,
    norms.section,
    blocks.section,
    gradients.section,
    invariances.section,
    precision.section,
    findings.section,
    coverage.section,
    verdict.section,
)


def render_inspect(report: Report, console: Console, options: Options) -> None:
    """Write the tables of `inspect`, to be read from top to bottom."""
    page = Page(width=console.width, all_rows=options.all_rows)
    parts = [part for section in SECTIONS for part in section(report, page)]
    console.print(Plain(Group(*parts)))
