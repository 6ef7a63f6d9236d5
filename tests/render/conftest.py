"""Golden files: what a renderer writes, kept as a file that a person can read and review.

After a wanted change, write them anew and look at the difference before committing it:

    NORMDIAG_UPDATE_GOLDEN=1 pytest tests/render && git diff tests/render/golden
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

GOLDEN = Path(__file__).parent / "golden"


@pytest.fixture
def golden() -> Callable[[str, str], None]:
    """Compare a text with the golden file of that name."""

    def compare(name: str, text: str) -> None:
        path = GOLDEN / name
        if os.environ.get("NORMDIAG_UPDATE_GOLDEN"):
            path.write_text(text, encoding="utf-8", newline="\n")
        assert path.is_file(), f"no golden file {name}; see {__file__}"
        assert text == path.read_text(encoding="utf-8"), f"{name} differs; see {__file__}"

    return compare
