"""The whole page of a report against its JSON."""

from __future__ import annotations

from normdiag.report.report import Report
from tests.sentences import (  # noqa: F401
    attention_claims,
    block_claims,
    finding_claims,
    format_finding_claims,
    measurement_claims,
    near_norm_claims,
    norm_finding_claims,
    norm_table_claims,
    stream_claims,
    stream_finding_claims,
    subject_claims,
    wiring_claims,
)
from tests.sentences.claims import check_paragraph
from tests.sentences.pages import iterate_paragraphs, iterate_tables
from tests.sentences.report_values import read_document
from tests.sentences.table_claims import check_table


def check_page(report: Report) -> None:
    """Check every paragraph and table.

    Raises:
        AssertionError: a number or an order that is not the report's, or a sentence with two
            numbers or more that no claim knows.
    """
    document = read_document(report)
    unknown = [
        text
        for heading, paragraph in iterate_paragraphs(report)
        for text in check_paragraph(heading, paragraph, document)
    ]
    assert not unknown, "no claim knows:\n" + "\n".join(unknown)
    for all_rows in (True, False):
        for heading, rows in iterate_tables(report, all_rows=all_rows):
            check_table(heading, rows, document)
