"""A report is evidence and judgement in one, saved and loaded whole."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from normdiag.errors import ReportError
from normdiag.evidence.evidence import Evidence
from normdiag.findings import Judgement, SkippedRule
from normdiag.report.report import Report, RuleOutcomes
from normdiag.report.saved import load_report
from tests.factories import subject
from tests.reports import bert, llama
from tests.traces import make_trace


def test_it_holds_what_was_seen_and_what_is_said_of_it():
    skip = SkippedRule(code="ND101", name="x", why="because")
    report = Report.from_evidence(
        Evidence(subject=subject()), Judgement(skipped=(skip,), passed=("ND102",))
    )
    assert report.rules == RuleOutcomes(passed=("ND102",), skipped=(skip,))
    assert report.trace is None
    assert report.to_evidence() == Evidence(subject=subject())


def test_the_evidence_comes_back_out_to_be_judged_again():
    report = make_trace()
    judgement = Judgement(
        findings=report.findings, passed=report.rules.passed, skipped=report.rules.skipped
    )
    assert Report.from_evidence(report.to_evidence(), judgement) == report


def test_saved_and_loaded_it_is_the_same(tmp_path):
    bert().save(tmp_path / "report.json")
    assert load_report(tmp_path / "report.json") == bert()
    assert load_report(str(tmp_path / "report.json")) == bert()
    assert json.loads((tmp_path / "report.json").read_text()) == bert().to_dict()


def test_a_file_that_is_not_there_or_not_text_is_refused(tmp_path):
    with pytest.raises(ReportError, match=r"absent\.json'.*No such file") as caught:
        load_report(tmp_path / "absent.json")
    assert "--json" in caught.value.hint
    with pytest.raises(ReportError, match="directory"):
        load_report(tmp_path)
    (tmp_path / "model.safetensors").write_bytes(b"\xb0\xff\x00")
    with pytest.raises(ReportError, match="not text") as caught:
        load_report(tmp_path / "model.safetensors")
    assert "normdiag inspect" in caught.value.hint


@pytest.mark.parametrize("heavy", ["torch", "transformers"])
def test_loading_and_rendering_need_no_torch(tmp_path, heavy):
    llama(2).save(tmp_path / "report.json")
    code = f"""
import sys
sys.modules[{heavy!r}] = None  # an import of it fails
from rich.console import Console
from normdiag.render.formats import FORMATS
from normdiag.render.interface import Options
from normdiag.report.saved import load_report
report = load_report({str(tmp_path / "report.json")!r})
for formats in FORMATS.values():
    for render in formats.values():
        render(report, Console(), Options())
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "model.layers" in done.stdout
