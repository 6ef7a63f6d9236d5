"""What was saved is read as what it is, and refused as anything else."""

from __future__ import annotations

from pathlib import Path

import pytest

from normdiag.errors import ReportError
from normdiag.report.compare.compare import compare_reports
from normdiag.report.compare.comparison import Comparison
from normdiag.report.report import Report
from normdiag.report.saved import load_report, load_reports, load_saved
from normdiag.report.series import Series
from tests.reports import llama


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    llama().save(tmp_path / "one.json")
    Series(exit_code=0, reports=()).save(tmp_path / "many.json")
    compare_reports(llama(), llama()).save(tmp_path / "two.json")
    return tmp_path


def test_documents_are_told_apart(saved: Path) -> None:
    kinds = {name: type(load_saved(saved / f"{name}.json")) for name in ("one", "many", "two")}
    assert kinds == {"one": Report, "many": Series, "two": Comparison}


def test_a_comparison_is_no_report(saved: Path) -> None:
    for read in (load_report, load_reports):
        with pytest.raises(ReportError, match="holds a comparison") as raised:
            read(saved / "two.json")
        assert "normdiag render" in str(raised.value.hint)


def test_several_reports_are_not_one(saved: Path) -> None:
    assert isinstance(load_reports(saved / "many.json"), Series)
    with pytest.raises(ReportError, match="several targets"):
        load_report(saved / "many.json")
