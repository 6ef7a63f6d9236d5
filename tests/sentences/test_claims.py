"""The checker itself: it reads numbers as people do and refuses what a report does not hold."""

from __future__ import annotations

import copy
import math
from typing import Any

import pytest

import normdiag
from normdiag.render.interface import Options
from normdiag.render.pages.inspection import build_inspection
from sample_models import pre_norm
from tests.sentences.claims import check_paragraph, compile_template
from tests.sentences.page_check import check_inspection
from tests.sentences.pages import iterate_paragraphs
from tests.sentences.report_values import read_document
from tests.sentences.shown_numbers import agrees_with, find_numbers


@pytest.mark.parametrize(
    ("shown", "value"),
    [
        ("24,837", 24836.68),
        ("261×", 260.71),
        ("0.28%", 0.0028),
        ("<0.001%", 4e-6),
        ("-<0.001%", -2e-6),
        ("1.84e18", 1.8399e18),
        (">1.05e6", 1048576.0),
        ("nan", math.nan),
        ("-", None),
    ],
)
def test_a_shown_number_is_its_value(shown: str, value: float | None) -> None:
    assert agrees_with(shown, value)


@pytest.mark.parametrize(
    ("shown", "value"),
    [("24,837", 24840.0), ("261×", 13.6), ("0.28%", 0.28), ("<0.001%", 2e-5), ("nan", 1.0)],
)
def test_a_shown_number_is_no_other_value(shown: str, value: float) -> None:
    assert not agrees_with(shown, value)


def test_numbers_inside_names_are_none() -> None:
    text = "at model.layers.11/add#1: 13.5, 2.3% (x^2 of 512), 5.24.0 and blocks.3"
    assert find_numbers(text) == ["13.5", "2.3%", "512"]


def test_a_template_knows_optional_parts() -> None:
    pattern = compile_template("rms {rms}[[, max {largest}]] at {list_places}$")
    for text, largest in (
        ("rms 2.07, max 56.7 at a, b and c.", "56.7"),
        ("rms 2.07 at a; more", None),
    ):
        match = pattern.search(text)
        assert match is not None and match["largest"] == largest
        assert match["list_places"] in ("a, b and c", "a")


@pytest.fixture(scope="module")
def report() -> Any:
    model, inputs = pre_norm.build(layers=6)
    return normdiag.inspect(model, inputs=inputs)


def test_a_changed_report_contradicts_its_page(report: Any) -> None:
    """Each number that a sentence is held against is needed: another value is refused."""
    document = read_document(report)
    check_inspection(report)
    changed = copy.deepcopy(document)
    for add in changed["measurements"]["stream"].values():
        add["update_ratio"]["median"] *= 1.1
    with pytest.raises(AssertionError, match="ratio is"):
        check_paragraphs(report, changed)
    changed = copy.deepcopy(document)
    changed["measurements"]["gradients"]["loss"]["value"] *= 2
    with pytest.raises(AssertionError, match="value is"):
        check_paragraphs(report, changed)


def test_an_unknown_sentence_is_named(report: Any) -> None:
    document = read_document(report)
    text = "The stream has 12 knots and 13 leaps."
    assert list(check_paragraph("Stream of blocks", text, document)) == [
        f"Stream of blocks: {text}"
    ]


def check_paragraphs(report: Any, document: Any) -> None:
    page = build_inspection(report, Options(all_rows=True))
    for heading, paragraph in iterate_paragraphs(page):
        list(check_paragraph(heading, paragraph, document))
