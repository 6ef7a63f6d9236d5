"""The generated pages and schemas match the code, and the check reports where they do not."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).parents[2] / "docs" / "generate.py"


@pytest.fixture(scope="module")
def generate() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate", SCRIPT)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_committed_pages_are_up_to_date() -> None:
    check = subprocess.run(
        [sys.executable, str(SCRIPT), "--check"], capture_output=True, text=True, check=False
    )
    assert (check.stdout, check.returncode) == ("", 0), "run: python docs/generate.py"


def test_what_is_written_passes_the_check(generate: ModuleType, tmp_path: Path) -> None:
    generate.write_files(tmp_path)
    assert generate.find_stale_files(tmp_path) == []
    written = {path.relative_to(tmp_path) for path in tmp_path.rglob("*") if path.is_file()}
    assert written == generate.generate_files().keys()


def test_nothing_written_yet_is_stale(generate: ModuleType, tmp_path: Path) -> None:
    assert len(generate.find_stale_files(tmp_path)) == len(generate.generate_files())


def test_a_changed_a_missing_and_a_foreign_page_are_noticed(
    generate: ModuleType, tmp_path: Path
) -> None:
    generate.write_files(tmp_path)
    rules = tmp_path / "docs" / "rules"
    (rules / "index.md").write_text("changed", encoding="utf-8")
    (rules / "constant-input.md").unlink()
    (rules / "retired-rule.md").touch()
    assert generate.find_stale_files(tmp_path) == [
        "docs/rules/constant-input.md: missing",
        "docs/rules/index.md: out of date",
        "docs/rules/retired-rule.md: no rule has this page",
    ]
    generate.write_files(tmp_path)
    assert generate.find_stale_files(tmp_path) == []


def test_check_fails_on_a_stale_page(
    generate: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(generate, "ROOT", tmp_path)
    assert generate.main(["--check"]) == 1
    assert generate.main([]) == 0
    assert generate.main(["--check"]) == 0
    assert generate.main(["--chekc"]) == 2
