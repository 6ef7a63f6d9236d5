"""The pages of two models say what the comparison and both reports hold."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from normdiag.render.interface import Options
from normdiag.render.pages.comparison import build_comparison
from tests.sentences import model_pairs
from tests.sentences.comparison_check import (
    ComparedReports,
    check_comparison,
    check_stream_table,
)
from tests.sentences.model_pairs import (
    BLOCK_CHANGES,
    GPT2_CHANGES,
    HEALTHY,
    IDS,
    OTHER_PAIRS,
    change_copy,
    compare_saved,
    compare_values,
    sample_target,
)
from tests.sentences.mutations import assert_all_refused, mutate_page
from tests.test_compare_sameness import X

pytestmark = pytest.mark.slow

HOW = (compare_values, compare_saved)


def check_sentences(compared: ComparedReports) -> None:
    check_comparison(compared)
    page = build_comparison(compared.comparison, Options(all_rows=True))
    mutations = mutate_page(page, compared.document, "comparison", check_stream_table)
    if compared.comparison.basis == "structure" and not mutations:
        return  # nothing that differs has a number
    assert_all_refused(mutations)


@pytest.fixture(scope="module")
def gpt2() -> Any:
    return model_pairs.make_gpt2()


@pytest.mark.parametrize("compare", HOW)
@pytest.mark.parametrize("change", GPT2_CHANGES.values(), ids=GPT2_CHANGES)
def test_a_change_of_a_transformer(gpt2: Any, change: Any, compare: Any) -> None:
    check_sentences(compare(gpt2, change_copy(gpt2, change), ids=IDS))


@pytest.mark.parametrize("compare", HOW)
@pytest.mark.parametrize("change", BLOCK_CHANGES.values(), ids=BLOCK_CHANGES)
def test_a_change_of_scales_buffers_and_formulas(change: Any, compare: Any) -> None:
    model = model_pairs.make_blocks()
    check_sentences(compare(model, change_copy(model, change), inputs=X))


@pytest.mark.parametrize(("defective", "healthy"), HEALTHY)
def test_a_defect_and_its_healthy_relative(defective: str, healthy: str) -> None:
    check_sentences(compare_values(sample_target(defective), sample_target(healthy)))


@pytest.mark.parametrize("compare", OTHER_PAIRS.values(), ids=OTHER_PAIRS)
def test_another_pair(compare: Callable[[], ComparedReports]) -> None:
    check_sentences(compare())
