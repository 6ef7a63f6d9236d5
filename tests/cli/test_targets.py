"""`inspect`, `trace` and `check` on models: the report on stdout, all else on stderr."""

import json
import os
import signal
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

from normdiag import pipeline
from normdiag.report.saved import load_report

MODELS = Path(__file__).parents[2] / "sample_models"
TINY = MODELS / "tiny_llama"
HEALTHY = f"{MODELS / 'pre_norm.py'}:build"
SICK = f"{MODELS / 'nan_gain.py'}:build"

NOISY = """
import sys, warnings
import torch

class Noisy(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.fc = torch.nn.LayerNorm(8), torch.nn.Linear(8, 8)
        self.example_inputs = {"x": torch.randn(2, 3, 8)}

    def forward(self, x):
        print("print in forward")
        sys.stdout.write("write in forward\\n")
        warnings.warn("warning in forward")
        return x + self.fc(self.norm(x))

def build():
    print("print in factory")
    return Noisy()
"""

HOSTILE = r"""
import torch

NAME = "\x1b]0;owned\x07[link=x]\u202e\r\n\ud800"

class Hostile(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.add_module(NAME, torch.nn.LayerNorm(8))
        self.fc = torch.nn.Linear(8, 8)
        self.example_inputs = {"x": torch.randn(2, 3, 8)}

    def forward(self, x):
        return x + self.fc(self._modules[NAME](x))

def build():
    return Hostile()

def fail():
    raise RuntimeError(NAME)
"""


@pytest.fixture
def noisy(folder):
    (folder / "noisy.py").write_text(NOISY, encoding="utf-8")
    return "noisy.py:build"


def test_inspect_shows_tables_and_saves_the_report(run):
    result = run("inspect", TINY, "--json", "report.json")
    assert result.exit_code == 0
    assert result.stdout.startswith(str(TINY)[:40])
    assert result.stderr == "report.json written\n"
    assert run("render", "report.json").stdout == result.stdout


def test_json_on_stdout_is_the_saved_report(run, folder):
    result = run("inspect", HEALTHY, "-f", "json", "--json", "report.json", "--measure", "none")
    assert result.stdout == (folder / "report.json").read_text(encoding="utf-8")
    assert load_report("report.json").measurements.stream == {}


def test_the_report_says_what_was_typed(run):
    run("inspect", HEALTHY, "--json", "a b.json", "--measure", "none")
    assert load_report("a b.json").subject.command == (
        f"normdiag inspect {HEALTHY} --json 'a b.json' --measure none"
    )


@pytest.mark.parametrize("form", ["text", "json"])
def test_what_a_model_prints_is_not_in_the_report(run, noisy, form):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = run("inspect", noisy, "-f", form)
    assert result.exit_code == 0, result.stderr
    assert "print in factory" in result.stderr
    assert "write in forward" in result.stderr
    assert "warning in forward" not in result.stderr
    assert "print in" not in result.stdout
    assert "write in" not in result.stdout
    if form == "json":
        assert json.loads(result.stdout)["architecture"]["residual_adds"]


def test_the_verbose_see_warnings(run, noisy):
    with pytest.warns(UserWarning, match="warning in forward"):
        run("inspect", noisy, "-v")


@pytest.mark.parametrize(
    "words",
    [
        ("inspect", "hostile.py:build"),
        ("inspect", "hostile.py:build", "-f", "json"),
        ("trace", "hostile.py:build", "-f", "csv"),
        ("inspect", "hostile.py:fail"),
        ("inspect", "hostile\x1b[31m.py:fail"),
    ],
    ids=lambda words: " ".join(words).replace("\x1b", "ESC"),
)
def test_nothing_hostile_reaches_the_terminal(run, folder, words):
    (folder / "hostile.py").write_text(HOSTILE, encoding="utf-8")
    result = run(*words)
    assert result.exit_code == (3 if "fail" in words[1] else 0), result.stderr
    assert "owned" in result.output or "\\x1b[31m" in result.output
    assert all(char.isprintable() or char == "\n" for char in result.output)


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("inspect", SICK), 0),
        (("inspect", SICK, "--fail-on", "error"), 1),
        (("check", SICK), 1),
        (("check", SICK, "--fail-on", "never"), 0),
        (("check", SICK, "--ignore", "ND2,ND7"), 0),
        (("check", HEALTHY, "--fail-on", "info"), 0),
        (("check", HEALTHY, "--measure", "none", "--require-complete"), 4),
        (("check", HEALTHY, "--weights-only", "--select", "ND203", "--require-complete"), 4),
        (("check", HEALTHY, "--structure-only"), 0),
        (("check", HEALTHY, "--structure-only", "--require-complete"), 4),
        (("trace", SICK, "--fail-on", "error"), 1),
    ],
    ids=lambda value: " ".join(value[:1] + value[2:]) if isinstance(value, tuple) else None,
)
def test_exit_codes(run, words, code):
    result = run(*words)
    assert result.exit_code == code, result.stderr
    assert result.stdout != ""


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("inspect", "./nowhere"), 3),
        (("inspect", "nowhere.py:build"), 3),
        (("check", "nowhere\n::error::/"), 3),
        (("inspect", TINY, "--revision", "main"), 2),
        (("inspect", TINY, "--device", "no such device"), 2),
        (("inspect", TINY, "--adapter", "nowhere"), 3),
        (("inspect", TINY, "--adapter", TINY), 3),
        (("inspect", TINY, "--adapter", TINY, "--weights-only"), 2),
        (("inspect", TINY, "--ids", "1,2,99999999"), 2),
        (("inspect", TINY, "--inputs", "nowhere.json"), 2),
        (("inspect", TINY, "--measure", "weather"), 2),
        (("inspect", HEALTHY, "--text", "it takes no text"), 2),
        (("trace", TINY, "--weights-only"), 2),
        (("trace", TINY, "--structure-only"), 2),
        (("trace", TINY, "--text", "a", "--site", "nowhere"), 2),
    ],
    ids=lambda value: (
        " ".join(map(str, value[:1] + value[2:])) if isinstance(value, tuple) else None
    ),
)
def test_errors(run, words, code):
    result = run(*words)
    assert result.exit_code == code, result.stderr
    assert result.stdout == ""
    assert "error: " in result.stderr
    assert "\nhint: " in result.stderr
    assert "Traceback" not in result.stderr
    assert "\n::" not in result.stderr


def sequences(result):
    rows = [line.split(",")[:4] for line in result.stdout.splitlines()[1:]]
    return len({row[0] for row in rows}), {row[2] for row in rows if row[0] == "0"}


def test_trace_runs_each_text(run):
    words = ("trace", TINY, "--text", "one", "--text", "-", "-f", "csv")
    result = run(*words, stdin="two\nlines\n")
    assert sequences(result)[0] == 2
    saved = run(*words[:-1], "json", stdin="two\nlines\n")
    assert [each["text"] for each in json.loads(saved.stdout)["trace"]] == ["one", "two\nlines"]


def test_trace_runs_these_ids(run):
    result = run("trace", TINY, "--ids", "5, 6", "--ids", "7", "-f", "csv")
    assert sequences(result) == (2, {"5", "6"})


def test_special_tokens_can_be_left_out(run):
    def tokens(*more):
        shown = run("trace", TINY, "--text", "The cat", "-f", "json", *more).stdout
        return json.loads(shown)["trace"][0]["tokens"]

    assert tokens()[1:] == tokens("--no-special-tokens")


@pytest.mark.parametrize("words", [("--texts", "probes.jsonl"), ()], ids=["typed", "set"])
def test_texts_come_from_a_file(run, folder, words):
    (folder / "probes.jsonl").write_text('{"text": "one"}\n"two"\n', encoding="utf-8")
    if not words:
        (folder / "normdiag.toml").write_text('texts = "probes.jsonl"', encoding="utf-8")
    result = run("inspect", TINY, "-f", "json", "--measure", "none", *words)
    assert json.loads(result.stdout)["subject"]["probe"]["texts"] == ["one", "two"]


def test_inputs_come_from_a_file(run, folder):
    ids = {"input_ids": [[5, 6, 7]], "attention_mask": [[1, 1, 0]]}
    (folder / "batch.json").write_text(json.dumps([ids, ids]), encoding="utf-8")
    result = run("inspect", TINY, "-f", "json", "--measure", "none", "--inputs", "batch.json")
    probe = json.loads(result.stdout)["subject"]["probe"]
    assert (probe["kind"], probe["sequences"], probe["tokens"]) == ("inputs", 2, 4)


@pytest.mark.parametrize("error", [KeyboardInterrupt, ZeroDivisionError])
def test_no_file_is_left_half_written(run, folder, monkeypatch, error):
    def fail(*args, **kwargs):
        raise error

    monkeypatch.setattr(pipeline, "inspect", fail)
    (folder / "report.json").write_text("as it was", encoding="utf-8")
    result = run("inspect", HEALTHY, "--json", "report.json", "-o", "report.txt")
    assert result.exit_code == (130 if error is KeyboardInterrupt else 5)
    assert [each.name for each in folder.iterdir()] == ["report.json"]
    assert (folder / "report.json").read_text(encoding="utf-8") == "as it was"


def test_ctrl_c_ends_a_run_quietly(folder):
    waiting = "import time\ndef build():\n    print('waiting', flush=True)\n    time.sleep(60)\n"
    (folder / "waiting.py").write_text(waiting, encoding="utf-8")
    with subprocess.Popen(
        [sys.executable, "-m", "normdiag", "inspect", "waiting.py:build", "--json", "a.json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    ) as running:
        assert running.stderr.readline() == b"waiting\n"
        running.send_signal(signal.SIGINT)
        out, err = running.communicate(timeout=60)
    assert (running.returncode, out, err) == (130, b"", b"interrupted\n")
    assert not (folder / "a.json").exists()
