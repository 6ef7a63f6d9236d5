"""The page of `compare` against the comparison and both reports as JSON."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import normdiag
from normdiag import pipeline
from normdiag.render.elements import Page, Series
from normdiag.render.interface import Options
from normdiag.render.pages.comparison import build_comparison
from normdiag.report.compare.comparison import Comparison
from normdiag.report.report import Report
from tests.sentences import (  # noqa: F401
    comparison_claims,
    difference_claims,
    gain_difference_claims,
    stack_difference_claims,
)
from tests.sentences.claims import Json
from tests.sentences.page_check import check_page
from tests.sentences.pages import TextRow
from tests.sentences.report_values import read_document
from tests.sentences.shown_numbers import agrees_with


@dataclass(frozen=True)
class ComparedReports:
    """A comparison and the two reports that it is drawn from."""

    comparison: Comparison
    a: Report
    b: Report

    @property
    def document(self) -> Json:
        """All three as JSON."""
        return {name: read_document(getattr(self, name)) for name in ("comparison", "a", "b")}


def compare_with_reports(a: Any, b: Any, **options: Any) -> ComparedReports:
    """Run `normdiag.compare` and keep the reports that it made on the way."""
    with _keep_reports() as kept:
        comparison = normdiag.compare(a, b, **options)
    ((mine, theirs),) = kept
    return ComparedReports(comparison, mine, theirs)


@contextmanager
def _keep_reports() -> Iterator[list[tuple[Report, Report]]]:
    kept: list[tuple[Report, Report]] = []
    compare_reports = pipeline.compare_reports

    def keep(a: Report, b: Report, *rest: Any) -> Comparison:
        kept.append((a, b))
        return compare_reports(a, b, *rest)

    with patch.object(pipeline, "compare_reports", keep):
        yield kept


def check_comparison(compared: ComparedReports) -> None:
    """Check every paragraph, table and series.

    Raises:
        AssertionError: a number or an order that is not that of the JSON, or a sentence with two
            numbers or more that no claim knows.
    """
    document = compared.document
    for all_rows in (True, False):
        page = build_comparison(compared.comparison, Options(all_rows=all_rows))
        check_page(page, document, "comparison", check_stream_table)
        check_series(page, document)


def check_stream_table(heading: str, rows: list[TextRow], document: Json) -> None:
    """One row per add, in the order of the forward; the folded page shows where they part."""
    assert heading == "Stream"
    sites = [site["a"] for site in document["comparison"]["stream"]]
    places = [sites.index(row["add"]) for row in rows]
    assert places == sorted(set(places))
    assert {0, len(sites) - 1} <= set(places)
    divergence = document["comparison"]["first_divergence"]
    assert divergence is None or sites.index(divergence["a"]) in places
    for place, row in zip(places, rows, strict=True):
        site = document["comparison"]["stream"][place]
        for title, value in {
            "x": site["skip"]["median"],
            "u": site["branch"]["median"],
            "y": site["out"]["median"],
            "rounding": site["tolerance"],
        }.items():
            assert agrees_with(row[title], value), (site["a"], title, row[title], value)


def check_series(page: Page, document: Json) -> None:
    """The line over the depth has a point for every add."""
    for element in page.elements:
        if isinstance(element, Series):
            sites = document["comparison"]["stream"]
            assert element.title == "Relative error of y"
            assert element.x == tuple(site["a"] for site in sites)
            assert all(
                shown == site["out"]["median"] or math.isnan(shown)
                for shown, site in zip(element.y, sites, strict=True)
            )
