"""`normdiag schema [DOCUMENT]`."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer


class Document(StrEnum):
    """A kind of document that --json saves."""

    REPORT = "report"
    SERIES = "series"
    COMPARISON = "comparison"


Which = Annotated[
    Document,
    typer.Argument(
        metavar="DOCUMENT",
        help="report: one target (default); series: several, by check; comparison: two.",
        show_default=False,
    ),
]


def schema(document: Which = Document.REPORT) -> None:
    """Print the JSON Schema of the documents that --json saves.

    The schema of a series refers to report-v1.schema.json in the same directory.

    \b
    normdiag schema > report-v1.schema.json
    normdiag schema series > series-v1.schema.json
    normdiag schema comparison > comparison-v1.schema.json
    """
    from normdiag.cli.report_console import open_report_console
    from normdiag.report import schema as committed

    path = {
        Document.REPORT: committed.REPORT_SCHEMA,
        Document.SERIES: committed.SERIES_SCHEMA,
        Document.COMPARISON: committed.COMPARISON_SCHEMA,
    }[document]
    open_report_console().out(path.read_text(encoding="utf-8"), end="", highlight=False)
