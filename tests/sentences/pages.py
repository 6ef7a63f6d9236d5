"""The paragraphs and tables of a page, as they are handed to the drawers."""

from __future__ import annotations

from collections.abc import Iterator

from normdiag.render.elements import Bar, FactList, Heading, ItemList, Name, Number, Row, Table
from normdiag.render.elements import Sentence as Paragraph
from normdiag.render.interface import Options
from normdiag.render.pages.inspection import build_inspection
from normdiag.report.report import Report

TextRow = dict[str, str]


def iterate_paragraphs(report: Report) -> Iterator[tuple[str, str]]:
    """Yield heading and text of every sentence, labelled value and list item."""
    heading = ""
    for element in build_inspection(report, Options(all_rows=True)).elements:
        match element:
            case Heading():
                heading = f"{element.title}  {element.detail}".strip()
                yield heading, heading
            case Paragraph():
                yield heading, element.text
            case FactList():
                for fact in element.facts:
                    yield heading, f"{fact.label}: {' '.join(fact.lines)}"
            case ItemList():
                for item in element.items:
                    yield heading, item


def iterate_tables(report: Report, *, all_rows: bool) -> Iterator[tuple[str, list[TextRow]]]:
    """Yield heading and rows of every table, each cell as text under its column's title."""
    heading = ""
    for element in build_inspection(report, Options(all_rows=all_rows)).elements:
        if isinstance(element, Heading):
            heading = element.title
        elif isinstance(element, Table):
            rows = [row for row in element.rows if isinstance(row, Row)]
            yield heading, [_write_row(element, row) for row in rows]


def _write_row(table: Table, row: Row) -> TextRow:
    return {
        column.title: _write_cell(cell)
        for column, cell in zip(table.columns, row.cells, strict=True)
        if not isinstance(cell, Bar)
    }


def _write_cell(cell: str | Name | Number) -> str:
    match cell:
        case Name():
            return cell.text
        case Number():
            return cell.written_value
        case _:
            return cell
