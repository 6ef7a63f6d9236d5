"""`check` on several targets and reports: one table, one document, the worst exit code."""

import json
import shutil
from pathlib import Path

import pytest

from normdiag import pipeline
from normdiag.report.saved import load_reports
from tests.hostile import broken
from tests.reports import bert, llama

MODELS = Path(__file__).parents[2] / "sample_models"
COUNTED = """
import weakref, torch
ALIVE = weakref.WeakSet()

class Counted(torch.nn.Module):
    def __init__(self):
        super().__init__()
        assert not ALIVE, "another model is still in memory"
        ALIVE.add(self)
        self.norm, self.fc = torch.nn.LayerNorm(8), torch.nn.Linear(8, 8)
        self.example_inputs = {"x": torch.randn(2, 3, 8)}

    def forward(self, x):
        return x + self.fc(self.norm(x))

def one():
    return Counted()

def two():
    return Counted()
"""


@pytest.fixture
def model(folder):
    """A target that takes no time."""
    (folder / "counted.py").write_text(COUNTED, encoding="utf-8")
    return "counted.py:one"


@pytest.fixture
def checkpoints(folder):
    """Reports called so that their order by letters is not that by numbers."""
    for report, number in ((llama(2), 10), (broken(), 9), (bert(1), 2)):
        report.save(folder / f"ckpt-{number}.json")
    return [f"ckpt-{number}.json" for number in (10, 2, 9)]


def targets(result):
    return [entry["target"] for entry in json.loads(result.stdout)["reports"]]


def test_they_stand_in_natural_order_in_one_document(run, checkpoints, folder):
    result = run("check", *checkpoints, "-f", "json", "--json", "all.json")
    assert targets(result) == ["ckpt-2.json", "ckpt-9.json", "ckpt-10.json"]
    assert result.exit_code == json.loads(result.stdout)["exit_code"] == 1
    assert (folder / "all.json").read_text(encoding="utf-8") == result.stdout
    assert result.stderr.splitlines()[-1] == "3 targets: 2 passed, 1 failed; all.json written"


def test_the_table_has_a_row_for_each(run, checkpoints):
    shown = run("check", *checkpoints).stdout
    rows = [line.split() for line in shown.splitlines() if line.startswith("  ckpt-")]
    assert [row[0] for row in rows] == ["ckpt-2.json", "ckpt-9.json", "ckpt-10.json"]
    assert [row[1] for row in rows] == ["1.030", "inf", "1.260"]
    assert max(map(len, shown.splitlines())) <= 80


def test_one_that_is_broken_does_not_lose_the_others(run, checkpoints, folder):
    (folder / "ckpt-3.json").write_text("{", encoding="utf-8")
    result = run("check", *checkpoints, "ckpt-3.json", "./nowhere", "-f", "json")
    assert result.exit_code == 3
    reports = json.loads(result.stdout)["reports"]
    assert [entry["report"] is None for entry in reports] == [True, False, True, False, False]
    assert reports[2]["failure"]["exit_code"] == 3
    assert "not JSON" in reports[2]["failure"]["what"]
    shown = run("check", *checkpoints, "ckpt-3.json").stdout
    assert "no report" in shown and "not JSON" in shown


def test_a_verdict_is_said_once(run, checkpoints):
    shown = run("check", *checkpoints)
    assert shown.stderr == "" and "ckpt-2.json" in shown.stdout
    assert run("check", *checkpoints, "-f", "json").stderr.count("ckpt-2.json: passed") == 1
    assert run("check", *checkpoints, "-f", "json", "-q").stderr == ""


def test_models_and_reports_may_be_mixed(run, saved, model):
    result = run("check", model, saved("llama"), "-f", "json")
    assert result.exit_code == 0, result.stderr
    assert set(targets(result)) == {model, str(saved("llama"))}
    refused = run("check", model, saved("llama"), "--seed", "1")
    assert refused.exit_code == 2 and "saved report" in refused.stderr


def test_a_fault_in_one_is_told_and_the_rest_is_done(run, saved, model, monkeypatch):
    def fault(*_, **__):
        raise RuntimeError("\x1b[31mbug")

    monkeypatch.setattr(pipeline, "inspect", fault)
    result = run("check", saved("llama"), model)
    assert result.exit_code == 5
    assert "\\x1b[31mbug" in result.stdout and "\x1b" not in result.output
    assert "passed" in result.stdout


def test_a_saved_series_is_shown_checked_again_and_a_baseline(run, checkpoints):
    run("check", *checkpoints, "--json", "all.json")
    again = run("check", "all.json", "--fail-on", "never", "-f", "json")
    assert again.exit_code == 0
    assert targets(again) == ["ckpt-2.json", "ckpt-9.json", "ckpt-10.json"]
    assert run("check", *checkpoints).exit_code == 1
    words = ("check", *checkpoints, "--baseline", "all.json", "--json", "new.json")
    result = run(*words)
    assert result.exit_code == 0
    checks = [entry.report.check for entry in load_reports("new.json").reports]
    assert all(check.baseline is not None for check in checks)


def test_a_target_that_the_baseline_does_not_have_is_told(run, checkpoints, saved):
    run("check", *checkpoints, "--json", "all.json")
    result = run("check", saved("broken"), "--baseline", "all.json")
    assert result.exit_code == 1
    assert "not in the baseline" in result.stderr


def test_no_name_begins_a_line_of_its_own_on_stderr(run, saved, folder):
    named = saved("llama").rename(folder / "a\n::error::x.json")
    named_json = ("--json", "b\n::error::x.json")
    result = run("check", named.name, saved("bert"), *named_json, "-f", "csv")
    assert result.exit_code == 0
    assert "a\\n::error::x.json: passed" in result.stderr
    assert "b\\n::error::x.json written" in result.stderr
    assert "\n::" not in result.stderr


@pytest.mark.parametrize("form", ["text", "csv", "json", "markdown", "sarif", "junit", "github"])
def test_a_saved_series_is_shown_in_any_format(run, checkpoints, form):
    direct = run("check", *checkpoints, "-f", form, "--json", "all.json")
    later = run("render", "all.json", "-f", form)
    assert later.exit_code == 0
    assert later.stdout == direct.stdout


def test_one_model_at_a_time_is_in_memory(run, model):
    """The second target is built when nothing of the first is left."""
    result = run("check", model, "counted.py:two", "--measure", "none", "-f", "json")
    assert result.exit_code == 0, result.stdout


def test_checkpoints_in_directories(run, folder):
    for number in (10, 2):
        shutil.copytree(MODELS / "tiny_llama", folder / f"ckpt-{number}")
    (folder / "ckpt-11").mkdir()
    words = ("ckpt-10/", "ckpt-11/", "ckpt-2/", "--measure", "stream")
    result = run("check", *words, "-f", "csv")
    assert result.exit_code == 3
    rows = [line.split(",") for line in result.stdout.splitlines()]
    assert [row[0] for row in rows[1:]] == ["ckpt-2/", "ckpt-10/", "ckpt-11/"]
    assert rows[1][1] == rows[2][1] != ""
