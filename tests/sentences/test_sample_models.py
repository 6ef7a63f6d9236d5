"""The pages of all sample models say what their reports hold, and nothing else would pass."""

from __future__ import annotations

import pytest
from _pytest.mark import ParameterSet

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

WITHOUT_BLOCKS = ("stream", "norms", "norm-jacobians", "gradients")
"""Block Jacobians take most of the time of a deep stack."""
WITH_BLOCKS = """
    absorbed_update:build attention_only:build batch_norm:build broken_wiring:build_no_residual
    erasing_block:build erasing_block:build_healthy gains:build_outlier half_epsilon:build
    large_qk_gain:build large_qk_gain:build_healthy nan_gain:build odd_norms:build_amplifying
    other_axes:build overflowing_add:build parallel:build pre_norm:build small_matrix:build
    spelled:build token_collapse:build
"""
"""Stacks of every form, layers enough to be folded, values that are not finite, and all that a
rule on Jacobians fires on: the sentences on blocks."""


def _cases() -> list[ParameterSet]:
    """Each model once, and those without block Jacobians with them where there is time."""
    cases = []
    for target in FACTORIES:
        if target in WITH_BLOCKS.split():
            cases.append(pytest.param(target, DEFAULT_MEASURES, id=target))
        else:
            slow = pytest.mark.slow
            cases.append(pytest.param(target, WITHOUT_BLOCKS, id=target))
            cases.append(pytest.param(target, DEFAULT_MEASURES, id=f"{target}-whole", marks=slow))
    return cases


def test_those_with_blocks_are_there() -> None:
    assert set(WITH_BLOCKS.split()) < set(FACTORIES)


@pytest.mark.parametrize(("target", "measure"), _cases())
def test_every_sentence_and_table_agrees_with_the_report(
    target: str, measure: tuple[str, ...]
) -> None:
    """One report has both pages: a trace with all measures is an inspection with tokens."""
    report = normdiag.trace(sample_target(target), measure=measure)
    check_inspection(report)
    check_trace(report)
    document, whole = read_document(report), Options(all_rows=True)
    for page in (build_inspection(report, whole), build_trace(report, whole)):
        assert_all_refused(mutate_page(page, document))
