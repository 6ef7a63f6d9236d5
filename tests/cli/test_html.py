"""`--format html` and `--html FILE`: files, messages and exit codes."""

from __future__ import annotations

from pathlib import Path

import pytest

from normdiag.render.html import extra
from tests.charts.reports import complete

pytest.importorskip("vl_convert", reason="pip install 'normdiag[html]'")


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    path = tmp_path / "report.json"
    complete(2).save(path)
    return path


def test_a_page_beside_another_format(run, saved: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    result = run("render", str(saved), "--html", str(page))
    assert result.exit_code == 0
    assert "page.html written" in result.stderr
    assert page.read_text(encoding="utf-8").startswith("<!doctype html>")
    assert "<!doctype" not in result.stdout


def test_a_page_as_the_format(run, saved: Path, tmp_path: Path) -> None:
    one, two = tmp_path / "one.html", tmp_path / "two.html"
    assert run("render", str(saved), "-f", "html", "-o", str(one)).exit_code == 0
    assert run("render", str(saved), "--html", str(two)).exit_code == 0
    assert one.read_bytes() == two.read_bytes()


@pytest.mark.parametrize("given", [("--format", "html"), ("--html", "page.html")])
def test_without_the_extra_nothing_is_loaded(
    run, saved: Path, tmp_path: Path, monkeypatch, given: tuple[str, str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(extra, "find_spec", lambda name: None)
    for command in (("render", str(saved)), ("inspect", "no/such/model")):
        result = run(*command, *given)
        assert result.exit_code == 2
        assert "pip install 'normdiag[html]'" in result.stderr
    assert not (tmp_path / "page.html").exists()


def test_two_files_may_not_be_one(run, saved: Path, tmp_path: Path) -> None:
    same = str(tmp_path / "same")
    result = run("render", str(saved), "--html", same, "--json", same)
    assert result.exit_code == 2
    assert "--html and --json are both" in result.stderr
