"""The pages of all sample models say what their reports hold, and nothing else would pass."""

from __future__ import annotations

import pytest

import normdiag
from normdiag.measures import DEFAULT_MEASURES
from normdiag.render.interface import Options
from normdiag.render.pages.inspection import build_inspection
from normdiag.render.pages.trace import build_trace
from tests.sample_models.test_every import FACTORIES
from tests.sentences.model_pairs import sample_target
from tests.sentences.mutations import assert_all_refused, mutate_page
from tests.sentences.page_check import check_inspection, check_trace
from tests.sentences.report_values import read_document


@pytest.mark.parametrize("target", FACTORIES)
def test_every_sentence_and_table_agrees_with_the_report(target: str) -> None:
    """One report has both pages: a trace with all measures is an inspection with tokens."""
    report = normdiag.trace(sample_target(target), measure=DEFAULT_MEASURES)
    check_inspection(report)
    check_trace(report)
    document, whole = read_document(report), Options(all_rows=True)
    for page in (build_inspection(report, whole), build_trace(report, whole)):
        assert_all_refused(mutate_page(page, document))
