"""Whole pages against JSON: every known sentence, table and heat map."""

from __future__ import annotations

from normdiag.render.elements import Page
from normdiag.render.interface import Options
from normdiag.render.pages.first_screen import build_first_screen
from normdiag.render.pages.inspection import build_inspection
from normdiag.render.pages.trace import build_trace
from normdiag.report.report import Report
from tests.sentences import (  # noqa: F401
    attention_claims,
    block_claims,
    column_claims,
    finding_claims,
    first_screen_claims,
    format_finding_claims,
    measurement_claims,
    near_norm_claims,
    norm_finding_claims,
    norm_table_claims,
    stream_claims,
    stream_finding_claims,
    subject_claims,
    trace_claims,
    wiring_claims,
)
from tests.sentences.claims import Json, PageKind, check_paragraph
from tests.sentences.heat_map_check import check_drawing, check_heat_map, iterate_heat_maps
from tests.sentences.pages import iterate_paragraphs, iterate_row_counts, iterate_tables
from tests.sentences.report_values import read_document
from tests.sentences.site_table_check import check_site_table, iterate_site_tables
from tests.sentences.table_claims import TableCheck, check_table

WIDTHS = (600, 70)
"""Columns of the screen: room for every layer, and for some of them only."""


def check_inspection(report: Report) -> None:
    """Check the page of `inspect`.

    Raises:
        AssertionError: a number or an order that is not the report's, or a sentence with two
            numbers or more that no claim knows.
    """
    document = read_document(report)
    for all_rows in (True, False):
        check_page(build_inspection(report, Options(all_rows=all_rows)), document)
    check_page(build_first_screen(report, Options()), document)


def check_trace(report: Report) -> None:
    """Check the page of `trace`, and those of the first and last adds and norms.

    Raises:
        AssertionError: as for `check_inspection`, or a heat map that is not the trace's.
    """
    document = read_document(report)
    traces = {trace["sequence"]: trace for trace in document["trace"]}
    for all_rows in (True, False):
        page = build_trace(report, Options(all_rows=all_rows))
        check_page(page, document)
        for sequence, heat_map in iterate_heat_maps(page):
            check_heat_map(heat_map, traces[sequence], document)
            for width in WIDTHS if heat_map.merges_columns else WIDTHS[:1]:
                check_drawing(heat_map, width)
    page = build_trace(report, Options(all_rows=True, sites=choose_sites(report)))
    check_page(page, document)
    for site, sequence, rows in iterate_site_tables(page):
        check_site_table(site, rows, traces[sequence], document)


def choose_sites(report: Report) -> tuple[str, ...]:
    """The first and last adds and norms."""
    adds = [add.id for add in report.architecture.residual_adds]
    norms = [norm.id for norm in report.architecture.norms]
    return tuple(dict.fromkeys((*adds[:1], *adds[-1:], *norms[:1], *norms[-1:])))


def check_page(
    page: Page, document: Json, kind: PageKind = "report", check_rows: TableCheck = check_table
) -> None:
    """Check every paragraph and table of a page against `document`.

    Raises:
        AssertionError: a number or an order that is not the document's, or a sentence with two
            numbers or more that no claim knows.
    """
    unknown = [
        text
        for heading, paragraph in iterate_paragraphs(page)
        for text in check_paragraph(heading, paragraph, document, kind)
    ]
    assert not unknown, "no claim knows:\n" + "\n".join(unknown)
    for heading, rows in iterate_tables(page):
        if rows and "token" not in rows[0]:
            check_rows(heading, rows, document)
    for stated, rows in iterate_row_counts(page):
        assert stated == rows, f"{stated} rows are announced and {rows} stand below"
