"""What the hand-written pages state of the code is so, and their links lead somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from normdiag.cli.app import BROKEN_PIPE, INTERRUPTED
from normdiag.errors import ExitCode

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def test_every_exit_code_is_on_its_page() -> None:
    page = (ROOT / "docs" / "exit-codes.md").read_text(encoding="utf-8")
    codes = [int(code) for code in re.findall(r"^\| (\d+) \|", page, re.MULTILINE)]
    assert codes[: len(ExitCode)] == [code.value for code in ExitCode]
    assert codes[len(ExitCode) :] == [INTERRUPTED, BROKEN_PIPE]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8"))
    missing = [link for link in links if not (page.parent / link).exists()]
    assert missing == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_paths_that_are_named_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    named = re.findall(r"`((?:normdiag|docs|tests|sample_models|\.ci)/[\w./-]*)[`:]", text)
    assert [path for path in named if not (ROOT / path).exists()] == []
