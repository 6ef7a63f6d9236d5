"""A report as a string in each format; the command line writes the same."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

import normdiag
from normdiag.cli.app import app
from normdiag.errors import UsageError
from normdiag.render.formats import FORMATS
from tests import reports
from tests.report.python.test_tables import full_report


def test_text_and_json_are_what_the_command_line_writes(tmp_path) -> None:
    report = reports.llama(3)
    assert report.to_json() == normdiag.render_report(report, "json")
    assert json.loads(report.to_json()) == report.to_dict()
    assert report.summary() == normdiag.render_report(report)
    assert "org/small" in report.summary()
    assert "\x1b" not in report.summary()


@pytest.mark.parametrize("is_full", [False, True])
def test_the_summary_is_what_inspect_prints(is_full: bool, tmp_path, monkeypatch) -> None:
    reports.llama(30).save(tmp_path / "report.json")
    report = normdiag.load_report(tmp_path / "report.json")
    monkeypatch.setenv("COLUMNS", "80")
    given = ["render", str(tmp_path / "report.json"), *(["--full"] if is_full else [])]
    assert report.summary(full=is_full) == CliRunner().invoke(app, given).stdout
    assert is_full or len(report.summary().splitlines()) < 24


def test_the_width_is_kept_and_all_rows_are_more() -> None:
    report = reports.llama(24)
    assert max(map(len, report.summary(width=60).splitlines())) <= 60
    assert len(normdiag.render_report(report, all_rows=True)) > len(report.summary(full=True))
    assert len(normdiag.render_report(report, "markdown", all_rows=True)) > len(
        normdiag.render_report(report, "markdown")
    )


@pytest.mark.parametrize("form", sorted(set(FORMATS["inspect"]) - {"html"}))
def test_every_format(form: str) -> None:
    assert normdiag.render_report(reports.llama(3), form)
    assert normdiag.render_report(full_report(), form)


def test_an_unknown_format_names_those_there_are() -> None:
    with pytest.raises(UsageError, match=r"'pdf'.*\n.*'markdown'"):
        normdiag.render_report(reports.llama(3), "pdf")


def test_the_page() -> None:
    if "html" not in FORMATS["inspect"]:
        pytest.skip("there is no format html")
    pytest.importorskip("vl_convert")
    page = reports.llama(3).to_html()
    assert page.lstrip().lower().startswith("<!doctype html>")
    assert "org/small" in page


def test_a_comparison_is_rendered_and_short() -> None:
    comparison = normdiag.compare(reports.llama(3), reports.llama(4))
    assert "Differences" in normdiag.render_report(comparison)
    assert json.loads(normdiag.render_report(comparison, "json")) == comparison.to_dict()
    assert len(repr(comparison).splitlines()) == 3 and comparison.headline in repr(comparison)
    with pytest.raises(UsageError, match=r"'csv' of a comparison.*\n.*'markdown'"):
        normdiag.render_report(comparison, "csv")
