"""The pages of all sample models say what their reports hold."""

from __future__ import annotations

import pytest

import normdiag
from tests.sample_models.test_every import FACTORIES, FOLDER
from tests.sentences.page_check import check_page


@pytest.mark.parametrize("target", FACTORIES)
def test_every_sentence_and_table_agrees_with_the_report(target: str) -> None:
    file, factory = target.split(":")
    check_page(normdiag.inspect(f"{FOLDER / file}.py:{factory}"))
