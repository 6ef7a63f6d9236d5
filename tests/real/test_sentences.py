"""The pages of trained models say what their reports hold."""

from __future__ import annotations

from pathlib import Path

import pytest

import normdiag
from tests.sentences.page_check import check_page


@pytest.mark.real
@pytest.mark.parametrize("directory", ["minilm_directory", "albert_directory"])
def test_every_sentence_of_an_encoder(directory: str, request: pytest.FixtureRequest) -> None:
    check_page(normdiag.inspect(str(request.getfixturevalue(directory))))


@pytest.mark.real
@pytest.mark.slow
def test_every_sentence_of_a_language_model(smollm2_directory: Path) -> None:
    check_page(normdiag.inspect(str(smollm2_directory)))
