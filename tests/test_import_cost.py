"""What needs no model does not import torch or transformers, which cost seconds."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests import reports

PROBE = """
import atexit, sys

HEAVY = {"torch", "transformers", "altair", "vl_convert", "jinja2"}

@atexit.register
def tell():
    print("HEAVY", *sorted(HEAVY & sys.modules.keys()), file=sys.stderr)
"""


def heavy_modules(code: str, *arguments: str) -> tuple[set[str], int]:
    """Which heavy modules `code` leaves in `sys.modules`, and its exit code."""
    done = subprocess.run(
        [sys.executable, "-c", f"{PROBE}\n{code}", *arguments],
        capture_output=True,
        encoding="utf-8",
    )
    *_, last = done.stderr.strip().splitlines()
    mark, *modules = last.split()
    assert mark == "HEAVY", done.stderr
    return set(modules), done.returncode


def run_command(*arguments: str) -> tuple[set[str], int]:
    return heavy_modules("from normdiag.__main__ import main\nmain()", *arguments)


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    """A saved report, made up."""
    path = tmp_path / "report.json"
    reports.llama().save(path)
    return path


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["--version"],
        ["inspect", "--help"],
        ["trace", "--help"],
        ["rules"],
        ["rules", "ND301"],
        ["schema"],
    ],
    ids=" ".join,
)
def test_no_heavy_import(arguments: list[str]) -> None:
    assert run_command(*arguments) == (set(), 0)


@pytest.mark.parametrize("form", ["text", "json", "csv", "sarif"])
def test_a_saved_report_needs_no_torch(saved: Path, form: str) -> None:
    assert run_command("render", str(saved), "--format", form) == (set(), 0)


def test_a_check_of_saved_reports_needs_no_torch(saved: Path, tmp_path: Path) -> None:
    bound = ("--max", "measurements.growth.total=1e9")
    assert run_command("check", str(saved), "--fail-on", "never") == (set(), 0)
    words = ("check", str(saved), str(saved), "--baseline", str(saved), *bound)
    assert run_command(*words, "--json", str(tmp_path / "all.json")) == (set(), 0)
    assert run_command("render", str(tmp_path / "all.json")) == (set(), 0)


@pytest.mark.parametrize("form", ["text", "json", "markdown"])
def test_comparing_saved_reports_needs_no_torch(saved: Path, form: str) -> None:
    assert run_command("compare", str(saved), str(saved), "--format", form) == (set(), 0)


def test_a_wrong_option_needs_no_torch() -> None:
    assert run_command("inspect", "x", "--no-such-option") == (set(), 2)


def test_importing_the_package_needs_no_torch() -> None:
    assert heavy_modules("import normdiag; normdiag.load_report; normdiag.Report") == (set(), 0)


@pytest.mark.parametrize(
    ("code", "modules"),
    [("import torch", {"torch"}), ("import normdiag.measure.observe", {"torch"})],
)
def test_the_probe_sees_a_heavy_import(code: str, modules: set[str]) -> None:
    assert heavy_modules(code)[0] >= modules


def test_inspect_does_import_torch() -> None:
    modules, code = run_command("inspect", "sample_models/pre_norm.py:build", "--measure", "none")
    assert (code, "torch" in modules) == (0, True)
