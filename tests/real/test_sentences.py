"""The pages of trained models say what their reports hold."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import normdiag
from normdiag.measures import DEFAULT_MEASURES
from normdiag.render.interface import Options
from normdiag.render.pages.comparison import build_comparison
from normdiag.render.pages.inspection import build_inspection
from normdiag.render.pages.trace import build_trace
from tests.real.test_casts import IDS, store_copy
from tests.sentences.comparison_check import check_comparison, check_stream_table
from tests.sentences.model_pairs import compare_saved, compare_values
from tests.sentences.mutations import assert_all_refused, mutate_page
from tests.sentences.page_check import check_inspection, check_trace
from tests.sentences.report_values import read_document


def check_pages(target: Path) -> None:
    report = normdiag.trace(str(target), measure=DEFAULT_MEASURES)
    check_inspection(report)
    check_trace(report)
    document, whole = read_document(report), Options(all_rows=True)
    for page in (build_inspection(report, whole), build_trace(report, whole)):
        assert_all_refused(mutate_page(page, document))


@pytest.mark.real
@pytest.mark.parametrize("directory", ["minilm_directory", "albert_directory"])
def test_every_sentence_of_an_encoder(directory: str, request: pytest.FixtureRequest) -> None:
    check_pages(request.getfixturevalue(directory))


@pytest.mark.real
@pytest.mark.slow
def test_every_sentence_of_a_language_model(smollm2_directory: Path) -> None:
    check_pages(smollm2_directory)


@pytest.mark.real
@pytest.mark.slow
@pytest.mark.parametrize("compare", [compare_values, compare_saved])
@pytest.mark.parametrize("fixture", ["minilm_directory", "smollm2_directory"])
def test_every_sentence_of_a_copy_in_half_precision(
    request: pytest.FixtureRequest, tmp_path: Path, fixture: str, compare: object
) -> None:
    source = request.getfixturevalue(fixture)
    copy = store_copy(source, tmp_path / "copy", torch.float16)
    assert callable(compare)
    compared = compare(str(source), str(copy), ids=IDS)
    check_comparison(compared)
    page = build_comparison(compared.comparison, Options(all_rows=True))
    assert_all_refused(mutate_page(page, compared.document, "comparison", check_stream_table))
