"""Files are whole or not there: interrupted at any moment, written by many at once."""

import json
import signal
import subprocess
import sys
import time

import pytest

from normdiag.report.saved import load_report, load_reports
from tests.cli.conftest import REPORTS

# Stops at one step of the writing, says so, and waits for the signal.
STOPPING = """
import sys, time, pathlib
from normdiag.report import atomic

step = sys.argv.pop(1)

def stop(*args, **kwargs):
    print("HERE", file=sys.stderr, flush=True)
    time.sleep(60)

def half(self, text):
    self.__wrapped__.write(text[: len(text) // 2])
    self.__wrapped__.flush()
    stop()

class Half:
    def __init__(self, file):
        self.__wrapped__ = file
    def __enter__(self):
        return self
    def __exit__(self, *error):
        self.__wrapped__.close()
    write = half

if step == "render":
    from normdiag.render.pages import inspection
    inspection.SECTIONS = (stop,)
elif step == "open":
    pathlib.Path.open = stop
elif step == "write":
    opened = pathlib.Path.open
    pathlib.Path.open = lambda self, *a, **k: (
        Half(opened(self, *a, **k)) if ".normdiag-" in self.name else opened(self, *a, **k)
    )
elif step == "replace":
    pathlib.Path.replace = stop

from normdiag.__main__ import main
main()
"""


def start_command(*words, code=None):
    how = ["-m", "normdiag"] if code is None else ["-c", code]
    command = [sys.executable, *how, *map(str, words)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


@pytest.mark.parametrize("step", ["open", "write", "replace", "render"])
def test_an_interrupt_while_writing_leaves_what_was_there(saved, folder, step):
    path, target = saved("llama"), folder / "out.json"
    target.write_text("old", encoding="utf-8")
    before = sorted(each.name for each in folder.iterdir())
    words = ("check", path, "-o", "out.json")
    words = (*words, "-f", "json") if step != "render" else words
    running = start_command(step, *words, code=STOPPING)
    while b"HERE" not in running.stderr.readline():
        assert running.poll() is None
    running.send_signal(signal.SIGINT)
    out, error = running.communicate(timeout=60)
    assert (running.returncode, out) == (130, b"")
    assert error == b"interrupted\n"
    assert target.read_text(encoding="utf-8") == "old"
    assert sorted(each.name for each in folder.iterdir()) == before


@pytest.mark.slow
@pytest.mark.parametrize("tenths", range(1, 13))
def test_an_interrupt_at_any_moment_leaves_a_whole_file(saved, folder, tenths):
    path, target = saved("llama"), folder / "out.json"
    target.write_text("old", encoding="utf-8")
    running = start_command("check", path, "--json", "out.json", "-o", "out.txt", "--all")
    time.sleep(tenths / 20)
    running.send_signal(signal.SIGINT)
    running.communicate(timeout=60)
    assert running.returncode in (0, 130, -signal.SIGINT)
    if target.read_text(encoding="utf-8") != "old":
        load_report(target)
    assert not list(folder.glob(".normdiag-*"))
    if (folder / "out.txt").exists():
        assert "Verdict" in (folder / "out.txt").read_text(encoding="utf-8")


def test_many_at_once_leave_one_whole_file(saved, folder):
    names = ("llama", "bert", "broken")
    paths = {name: saved(name) for name in names}
    running = [
        start_command("check", paths[name], "--json", "all.json", "--fail-on", "never")
        for name in names
    ]
    for each in running:
        _, error = each.communicate(timeout=120)
        assert each.returncode == 0, error
    subject = load_reports("all.json").subject
    assert subject in [REPORTS[name]().subject for name in names]
    assert not list(folder.glob(".normdiag-*"))


@pytest.mark.parametrize(
    ("version", "code"), [("1.0", 0), ("1.7", 0), ("2.0", 3), ("0.9", 3), ("one", 3)]
)
@pytest.mark.parametrize("place", ["report", "baseline", "series"])
def test_versions_of_reports(run, saved, folder, version, code, place):
    path = saved("llama")
    if place == "series":
        run("check", path, path, "--json", "series.json")
        path = folder / "series.json"
    document = json.loads(path.read_text(encoding="utf-8"))
    (folder / "other.json").write_text(
        json.dumps(document | {"schema_version": version, "added_later": {"x": 1}}),
        encoding="utf-8",
    )
    words = ("check", "other.json")
    if place == "baseline":
        words = ("check", path, "--baseline", "other.json")
    result = run(*words)
    assert result.exit_code == code, result.stderr
    assert "Traceback" not in result.stderr
    if code:
        assert "other.json" in result.stderr


@pytest.mark.parametrize("form", ["text", "markdown", "html"])
def test_no_file_holds_colours(run, saved, folder, monkeypatch, form):
    if form == "html":
        pytest.importorskip("vl_convert")
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert run("render", saved("broken"), "-f", form, "-o", "file").exit_code == 0
    assert "\x1b" not in (folder / "file").read_text(encoding="utf-8")


def test_a_byte_order_mark_is_read_over(run, saved, folder):
    text = saved("llama").read_text(encoding="utf-8")
    (folder / "marked.json").write_text(f"\ufeff{text}", encoding="utf-8")
    assert load_report("marked.json") == load_report(saved("llama"))


def test_a_link_to_itself_is_replaced(run, saved, folder):
    (folder / "loop").symlink_to("loop")
    assert run("render", saved("llama"), "--json", "loop").exit_code == 0
    assert load_report("loop") == load_report(saved("llama"))


def test_a_version_of_any_length_is_newer(run, saved, folder):
    document = json.loads(saved("llama").read_text(encoding="utf-8"))
    (folder / "far.json").write_text(json.dumps({**document, "schema_version": f"{'9' * 5000}.0"}))
    result = run("render", "far.json")
    assert result.exit_code == 3 and "upgrade normdiag" in result.stderr
