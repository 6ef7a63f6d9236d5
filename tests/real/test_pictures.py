"""The picture of SmolLM2's page is current."""

from __future__ import annotations

from pathlib import Path

import pytest

from docs.generators.pictures.__main__ import find_stale_pictures

pytestmark = [pytest.mark.real, pytest.mark.slow]
pytest.importorskip("vl_convert", reason="pip install 'normdiag[html]'")


def test_the_page_of_smollm2(smollm2_gguf: Path) -> None:
    assert smollm2_gguf.exists()
    assert find_stale_pictures("smollm2") == []
