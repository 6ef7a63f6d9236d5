"""`normdiag schema [DOCUMENT]`."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer


class Document(StrEnum):
    """What is described."""

    REPORT = "report"
    SERIES = "series"
    COMPARISON = "comparison"


Which = Annotated[
    Document,
    typer.Argument(
        metavar="DOCUMENT",
        help="report: of one target (default). series: of several, by check. comparison: of two.",
        show_default=False,
    ),
]


def schema(document: Which = Document.REPORT) -> None:
    """Print the JSON Schema of what --json saves.

    The schema of a series refers to that of the report as report-v1.schema.json beside it.

    \b
    normdiag schema > report-v1.schema.json
    normdiag schema series > series-v1.schema.json
    normdiag schema comparison > comparison-v1.schema.json
    """
    from normdiag.cli.stdout import stdout
    from normdiag.report import schema as committed

    path = {
        Document.REPORT: committed.COMMITTED,
        Document.SERIES: committed.SERIES,
        Document.COMPARISON: committed.COMPARISON,
    }[document]
    stdout().out(path.read_text(encoding="utf-8"), end="", highlight=False)
