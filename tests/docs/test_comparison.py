"""What the page on other tools says of normdiag itself is so; the others are not installed here."""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from typing import Any

import pytest

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "comparison.md").read_text(encoding="utf-8")
TYPES = re.findall(r"^\| `(\w+)` \| \d+ of \d+", PAGE, re.MULTILINE)


@pytest.fixture
def peers(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Import a module of the folder `peers`, as the script beside it does."""
    monkeypatch.syspath_prepend(str(DOCS))
    return lambda name: importlib.import_module(f"peers.{name}")


def test_there_are_ten_types(peers: Any) -> None:
    assert [case.name for case in peers("cases").CASES] == TYPES
    assert len(TYPES) == 10


@pytest.mark.parametrize("name", TYPES)
def test_normdiag_finds_what_the_page_says(peers: Any, name: str) -> None:
    case = next(case for case in peers("cases").CASES if case.name == name)
    said = peers("of_normdiag").ask(case)
    wanted = sum(map(len, case.true_sums(case.build()).values()))
    assert (said.found, said.extra) == (wanted, 0)
    assert said.identity < 1e-6
    assert set(said.placement.split(", ")) == {case.placement}
    rows = re.findall(rf"^\| `{name}` \| (.*)", PAGE, re.MULTILINE)
    assert rows[0].startswith(f"{wanted} of {wanted}; ")
    assert f"{case.placement} | {said.placement}: {said.norms} |" in rows[1]
    assert all(f"`{add}`" in rows[2] for add in said.names.split(", "))
