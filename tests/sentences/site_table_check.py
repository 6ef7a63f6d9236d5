"""Tables of one site: a row per token."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence

from normdiag.render.elements import Heading, Page, Row, Table
from normdiag.render.elements import Sentence as Paragraph
from tests.sentences.claims import Json
from tests.sentences.pages import TextRow, write_row
from tests.sentences.shown_numbers import agrees_with

_TITLES = {
    "norm": "out_norm",
    "update": "update_ratio",
    "max |y|": "max_abs",
    "channel": "max_channel",
    "variance": "input_var",
}


def iterate_site_tables(page: Page) -> Iterator[tuple[str, int, list[TextRow]]]:
    """Yield site, sequence and rows of each table."""
    site, sequence = "", -1
    for element in page.elements:
        match element:
            case Heading():
                site = element.title
            case Paragraph() if re.fullmatch(r"Sequence \d+", element.text):
                sequence = int(element.text.split()[1])
            case Table():
                rows = [row for row in element.rows if isinstance(row, Row)]
                yield site, sequence, [write_row(element, row) for row in rows]


def check_site_table(site: str, rows: Sequence[TextRow], trace: Json, report: Json) -> None:
    """Check the cells of a table that shows all tokens.

    Raises:
        AssertionError: a cell that is not the report's, or one that no check knows.
    """
    norms = {norm["id"]: norm for norm in report["architecture"]["norms"]}
    measured = next(trace[key][site] for key in _TITLES.values() if site in trace[key])
    assert len(rows) == len(measured)
    for place, row in enumerate(rows):
        assert row["token"].split()[0] == str(place)
        if len(rows) == len(trace["tokens"]):
            assert row["token"] == f"{place:>4} {trace['tokens'][place].replace(' ', '␣')}"
        for title, cell in row.items():
            if title == "token":
                continue
            if title == "eps share":
                value = _epsilon_share(norms[site], trace["input_var"][site][place])
            else:
                value = trace[_TITLES[title]][site][place]
            assert agrees_with(cell, value), f"{site} token {place} {title}: {cell} for {value}"


def _epsilon_share(norm: Json, variance: float) -> float | None:
    """Which part of the denominator is epsilon; with a floor, whether it is the floor."""
    eps, form = norm["eps"], norm["eps_form"]
    if eps is None:
        return None
    rest = variance * norm["variance_scale"]
    if form in ("on-root", "floor-of-root"):
        rest = math.sqrt(rest)
    if form.startswith("floor"):
        return float(rest <= eps)
    return float(eps / (rest + eps)) if rest + eps else math.nan
