"""What the page on other tools says of normdiag itself is so; the others are not installed here."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from docs.generators.peers.ask_normdiag import ask_tool
from docs.generators.peers.models import CASES

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "comparison.md").read_text(encoding="utf-8")
TYPES = re.findall(r"^\| `(\w+)` \| \d+ of \d+", PAGE, re.MULTILINE)


def test_there_are_ten_types() -> None:
    assert [case.name for case in CASES] == TYPES
    assert len(TYPES) == 10


@pytest.mark.parametrize("name", TYPES)
def test_normdiag_finds_what_the_page_says(name: str) -> None:
    case = next(case for case in CASES if case.name == name)
    answer = ask_tool(case)
    wanted = sum(map(len, case.true_sums(case.build()).values()))
    assert (answer.true_sums, answer.extra) == (wanted, 0)
    assert answer.identity < 1e-6
    assert set(answer.placement.split(", ")) == {case.placement}
    rows = re.findall(rf"^\| `{name}` \| (.*)", PAGE, re.MULTILINE)
    assert rows[0].startswith(f"{wanted} of {wanted}; ")
    assert f"{case.placement} | {answer.placement}: {answer.norms} |" in rows[1]
    assert all(f"`{add}`" in rows[2] for add in answer.names.split(", "))
