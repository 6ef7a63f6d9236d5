"""The paragraphs and tables of a page, as they are handed to the drawers."""

from __future__ import annotations

import re
from collections.abc import Iterator

from normdiag.render.elements import (
    Bar,
    FactList,
    Heading,
    ItemList,
    Name,
    Number,
    Page,
    Row,
    Table,
)
from normdiag.render.elements import Sentence as Paragraph

TextRow = dict[str, str]


def iterate_paragraphs(page: Page) -> Iterator[tuple[str, str]]:
    """Yield heading and text of every sentence, labelled value, list item and legend."""
    heading = ""
    for element in page.elements:
        match element:
            case Heading():
                heading = f"{element.title}{'  ' if element.detail else ''}{element.detail}"
                yield heading, heading
            case Paragraph():
                yield heading, element.text
            case FactList():
                for fact in element.facts:
                    between = "; " if element.has_clauses else " "
                    yield heading, f"{fact.label}: {between.join(fact.lines)}"
            case ItemList():
                for item in element.items:
                    yield heading, item
            case Table():
                yield heading, element.describe_columns()


def iterate_tables(page: Page) -> Iterator[tuple[str, list[TextRow]]]:
    """Yield heading and rows of every table, each cell as text under its column's title."""
    heading = ""
    for element in page.elements:
        if isinstance(element, Heading):
            heading = element.title
        elif isinstance(element, Table):
            rows = [row for row in element.rows if isinstance(row, Row)]
            yield heading, [write_row(element, row) for row in rows]


def iterate_row_counts(page: Page) -> Iterator[tuple[int, int]]:
    """Yield what headings such as "5 of 48 adds" announce, and the rows of the next table."""
    stated: int | None = None
    for element in page.elements:
        if isinstance(element, Heading):
            announced = re.match(r"([\d,]+) of [\d,]+\b", element.detail)
            stated = int(announced[1].replace(",", "")) if announced else None
        elif isinstance(element, Table) and stated is not None:
            yield stated, sum(isinstance(row, Row) for row in element.rows)
            stated = None


def write_row(table: Table, row: Row) -> TextRow:
    """Return the cells as text, under the titles of their columns; bars are left out."""
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
