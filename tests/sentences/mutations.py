"""Pages with one number changed: a check that lets one of them pass holds nothing."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from normdiag.render.elements import Page
from tests.sentences.claims import Json, PageKind, check_paragraph, find_claims
from tests.sentences.pages import TextRow, iterate_paragraphs, iterate_tables
from tests.sentences.shown_numbers import NUMBER, find_number_spans
from tests.sentences.table_claims import TableCheck, check_table


@dataclass(frozen=True)
class Mutation:
    """A number on a page that was exchanged for another one, and whether a check refused it."""

    place: str
    is_refused: bool


def mutate_page(
    page: Page, document: Json, kind: PageKind = "report", check_rows: TableCheck = check_table
) -> list[Mutation]:
    """Change every number of the known sentences, and of two rows of every table, one by one."""
    return [*_change_sentences(page, document, kind), *_change_cells(page, document, check_rows)]


def assert_all_refused(mutations: list[Mutation]) -> None:
    """Check that there are some and that none passes.

    Raises:
        AssertionError: it names the numbers that are not held against anything.
    """
    assert mutations
    passing = [each.place for each in mutations if not each.is_refused]
    assert not passing, "other numbers pass as well:\n" + "\n".join(passing)


def change_number(number: str) -> str:
    """Return another number: its first digit that counts is exchanged, and it is no bound.

    >>> change_number("24,837"), change_number("<0.001%"), change_number("nan")
    ('34,837', '0.002%', '0')
    """
    number = re.sub("[<>]", "", number)
    digit = re.search(r"[1-9]", number) or re.search(r"0", number)
    if digit is None:
        return "0"
    other = "8" if digit.group() == "9" else str(int(digit.group()) + 1)
    return f"{number[: digit.start()]}{other}{number[digit.end() :]}"


def _change_sentences(page: Page, document: Json, kind: PageKind) -> Iterator[Mutation]:
    for heading, paragraph in iterate_paragraphs(page):
        for _, match in find_claims(heading, paragraph, kind):
            for start, end in find_number_spans(match.group()):
                begin, stop = match.start() + start, match.start() + end
                number = change_number(paragraph[begin:stop])
                changed = f"{paragraph[:begin]}{number}{paragraph[stop:]}"
                place = f"{heading}: {match.group()!r} with {number} for {paragraph[begin:stop]}"
                yield Mutation(place, _is_refused(heading, changed, document, kind))


def _is_refused(heading: str, paragraph: str, document: Json, kind: PageKind) -> bool:
    try:
        return any(check_paragraph(heading, paragraph, document, kind))
    except (AssertionError, LookupError, RuntimeError, ValueError):  # as by `next` in a check
        return True


def _change_cells(page: Page, document: Json, check_rows: TableCheck) -> Iterator[Mutation]:
    """Change one number per column in the first and the last row."""
    for heading, rows in iterate_tables(page):
        if rows and "token" in rows[0]:
            continue
        for index in dict.fromkeys((0, len(rows) - 1) if rows else ()):
            for title, cell in rows[index].items():
                for start, end in (match.span() for match in re.finditer(NUMBER, cell)):
                    number = change_number(cell[start:end])
                    changed = {title: f"{cell[:start]}{number}{cell[end:]}"}
                    others = _replace_row(rows, index, changed)
                    place = f"{heading}: {title} {changed[title]} for {cell}"
                    yield Mutation(place, _is_table_refused(heading, others, document, check_rows))


def _replace_row(rows: Sequence[TextRow], place: int, changed: TextRow) -> list[TextRow]:
    return [row | changed if k == place else row for k, row in enumerate(rows)]


def _is_table_refused(
    heading: str, rows: list[TextRow], document: Json, check_rows: TableCheck
) -> bool:
    try:
        check_rows(heading, rows, document)
    except (AssertionError, LookupError, ValueError):
        return True
    return False
