"""The pages of a report, of a comparison and of several targets."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from rich.console import Console

from normdiag.charts.compared_streams import COMPARED
from normdiag.render.elements import Element, Page
from normdiag.render.html.architecture_figure import draw_architecture
from normdiag.render.html.cards import list_cards, list_compared_cards
from normdiag.render.html.document import Document, FigureGroup, Section
from normdiag.render.html.extra import require_libraries
from normdiag.render.html.figures import draw_figures, draw_named, make_figure
from normdiag.render.html.sections import split_sections
from normdiag.render.html.writer import write_document
from normdiag.render.interface import Options
from normdiag.render.pages.comparison import build_comparison
from normdiag.render.pages.inspection import build_inspection
from normdiag.render.pages.series import build_series
from normdiag.report.compare.comparison import Comparison
from normdiag.report.report import Report
from normdiag.report.series import Series

_CARDS = ("Findings", "Verdict")
"""Sections that stand above, as cards and as the headline."""


def write_report(report: Report, console: Console, options: Options) -> None:
    """Write the page of one report. Raises UsageError without the libraries of the page."""
    require_libraries()
    console.file.write(write_document(build_document(report, options)))


def write_comparison(comparison: Comparison, console: Console, options: Options) -> None:
    """Write the page of a comparison. Raises UsageError without the libraries of the page."""
    require_libraries()
    console.file.write(write_document(build_compared(comparison, options)))


def write_series(series: Series, console: Console, options: Options) -> None:
    """Write one page for several targets. Raises UsageError without the libraries of the page."""
    require_libraries()
    console.file.write(write_document(build_several(series, options)))


def build_document(report: Report, options: Options) -> Document:
    """Return the page of one report: findings, charts, then every table whole."""
    page = build_inspection(report, replace(options, all_rows=True))
    lead, sections = split_sections(page)
    groups, undrawn = draw_figures(report)
    figures = tuple(figure for group in groups for figure in group.figures)
    drawing = draw_architecture(report)
    cards = list_cards(report, figures, drawing)
    return Document(
        title=page.title,
        outcome=page.outcome,
        lead=lead,
        cards=cards,
        no_cards=_describe_silence(report),
        groups=groups,
        drawing=drawing,
        undrawn=undrawn,
        sections=tuple(each for each in sections if each.title not in _CARDS or not cards),
    )


def build_compared(comparison: Comparison, options: Options) -> Document:
    """Return the page of a comparison: what differs, both streams, every add."""
    page = build_comparison(comparison, replace(options, all_rows=True))
    lead, sections = split_sections(page)
    drawn, undrawn = draw_named(COMPARED, comparison)
    figures = tuple(make_figure(name, spec) for name, spec in drawn.items())
    groups = (FigureGroup(id="streams", title="The streams", figures=figures),) if figures else ()
    return Document(
        title=page.title,
        outcome=page.outcome,
        lead=lead,
        cards_title="Differences and changed findings",
        cards=list_compared_cards(comparison, figures),
        no_cards="No difference beyond rounding, and the same findings in both.",
        groups=groups,
        undrawn=tuple(undrawn),
        sections=sections,
    )


def build_several(series: Series, options: Options) -> Document:
    """Return one page for several targets: a table of all, then each with its findings."""
    page = build_series(series, replace(options, all_rows=True))
    lead, _ = split_sections(page)
    sections = tuple(_list_entries(page))
    return Document(
        title=page.title,
        outcome=page.outcome,
        lead=lead,
        sections_title="Targets",
        sections=sections,
    )


def _list_entries(page: Page) -> Iterator[Section]:
    for place, entry in enumerate(page.entries):
        elements: tuple[Element, ...] = (*entry.summary, *entry.elements)
        yield Section(
            id=f"target-{place}", title=entry.title, detail=entry.outcome, elements=elements
        )


def _describe_silence(report: Report) -> str:
    passed, skipped = len(report.rules.passed), len(report.rules.skipped)
    return f"No findings: {passed} rules passed, {skipped} were skipped."
