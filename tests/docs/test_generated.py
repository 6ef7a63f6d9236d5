"""The generated pages and schemas match the code, and the check reports where they do not."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from docs.generators import reference_pages as pages

ROOT = Path(__file__).parents[2]
COMMAND = (sys.executable, "-m", "docs.generators.reference_pages", "--check")


def test_the_committed_pages_are_up_to_date() -> None:
    check = subprocess.run(COMMAND, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (check.stdout, check.returncode) == ("", 0), check.stderr


def test_what_is_written_passes_the_check(tmp_path: Path) -> None:
    pages.write_files(tmp_path)
    assert pages.find_stale_files(tmp_path) == []
    written = {path.relative_to(tmp_path) for path in tmp_path.rglob("*") if path.is_file()}
    assert written == pages.generate_files().keys()


def test_nothing_written_yet_is_stale(tmp_path: Path) -> None:
    assert len(pages.find_stale_files(tmp_path)) == len(pages.generate_files())


def test_a_changed_a_missing_and_a_foreign_page_are_noticed(tmp_path: Path) -> None:
    pages.write_files(tmp_path)
    rules = tmp_path / "docs" / "rules"
    (rules / "index.md").write_text("changed", encoding="utf-8")
    (rules / "constant-input.md").unlink()
    (rules / "retired-rule.md").touch()
    assert pages.find_stale_files(tmp_path) == [
        "docs/rules/constant-input.md: missing",
        "docs/rules/index.md: out of date",
        "docs/rules/retired-rule.md: no rule has this page",
    ]
    pages.write_files(tmp_path)
    assert pages.find_stale_files(tmp_path) == []


def test_check_fails_on_a_stale_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "ROOT", tmp_path)
    assert pages.main(["--check"]) == 1
    assert pages.main([]) == 0
    assert pages.main(["--check"]) == 0
    assert pages.main(["--chekc"]) == 2
