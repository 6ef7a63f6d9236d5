"""A report as a short piece of HTML, for notebooks: verdict, findings, stacks. No script."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from statistics import median
from typing import TYPE_CHECKING

from normdiag.findings import Finding
from normdiag.number_text import format_factor, format_number
from normdiag.printable_text import escape_in_full
from normdiag.report.python.short_text import describe_subject, describe_verdict
from normdiag.report.python.stack_views import StackView

if TYPE_CHECKING:
    from normdiag.report.report import Report

_SHOWN = 10
"""Findings and stacks that are shown."""
_FINDING = ("severity", "rule", "site", "message")
_STACK = ("stack", "layers", "placement", "formula", "growth", "law", "update ratio (median)")


def draw_fragment(report: Report) -> str:
    """Return the fragment. Every string in it is escaped."""
    parts = [
        f"<p><b>{_escape_cell(describe_verdict(report))}</b><br>"
        f"{_escape_cell(describe_subject(report))}</p>"
    ]
    found = [_list_finding_cells(finding) for finding in report.findings]
    stacks = [_list_stack_cells(view) for view in report.stacks.values()]
    parts += [*_draw_table("Findings", _FINDING, found), *_draw_table("Stacks", _STACK, stacks)]
    return f"<div>{''.join(parts)}</div>"


def _list_finding_cells(finding: Finding) -> tuple[str, ...]:
    site = finding.ids[0] if finding.ids else ""
    return (finding.severity, f"{finding.code} {finding.name}", site, finding.message)


def _list_stack_cells(view: StackView) -> tuple[str, ...]:
    stack, growth = view.structure, view.growth
    ratios = [measured.update_ratio.median for measured in view.stream.values()]
    return (
        stack.title,
        str(stack.layers),
        stack.placement,
        stack.drawing,
        format_factor(growth.total if growth else None),
        growth.law if growth else "",
        format_number(median(ratios) if ratios else None),
    )


def _draw_table(title: str, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    if not rows:
        return []
    head = "".join(f'<th scope="col">{_escape_cell(cell)}</th>' for cell in heads)
    body = "".join(
        f"<tr>{''.join(f'<td>{_escape_cell(cell)}</td>' for cell in row)}</tr>"
        for row in rows[:_SHOWN]
    )
    more = f"<p>and {len(rows) - _SHOWN} more</p>" if len(rows) > _SHOWN else ""
    return [
        f"<table><caption>{title}</caption><thead><tr>{head}</tr></thead>"
        f"<tbody>{body}</tbody></table>{more}"
    ]


def _escape_cell(text: str) -> str:
    return escape(escape_in_full(text))
