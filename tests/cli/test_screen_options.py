"""Colours, the pager, silence and completion."""

import io
import pydoc
import sys

import pytest
from rich.console import Console
from typer.testing import CliRunner

from normdiag.cli.app import app
from normdiag.cli.report_console import write_paged


@pytest.mark.parametrize("command", ["check", "render"])
def test_quiet_leaves_files_and_the_exit_code(run, saved, folder, command):
    result = run(command, saved("broken"), "-q", "--json", "again.json")
    assert (result.stdout, result.stderr) == ("", "")
    assert result.exit_code == (1 if command == "check" else 0)
    assert (folder / "again.json").is_file()
    failed = run(command, "none.json", "-q")
    assert failed.exit_code == 3 and failed.stderr.startswith("error: ")


def test_colours_are_asked_for_and_refused(run, saved, monkeypatch):
    assert "\x1b[1m" in run("render", saved("llama"), "--color").stdout
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert "\x1b[1;33m" in run("render", saved("llama")).stdout
    assert "\x1b[1;33m" not in run("render", saved("llama"), "--no-color").stdout
    refused = run("render", saved("llama"), "--color", "--no-color")
    assert refused.exit_code == 2 and "contradict" in refused.stderr


class Terminal(io.StringIO):
    """Text that claims to be typed or shown by hand."""

    def isatty(self):
        return True


@pytest.mark.parametrize(
    ("lines", "terminals", "is_paged"),
    [(30, "both", True), (23, "both", False), (30, "output", False), (30, "neither", False)],
)
def test_what_is_longer_than_the_screen_goes_to_the_pager(monkeypatch, lines, terminals, is_paged):
    monkeypatch.setattr(sys, "stdin", Terminal() if terminals == "both" else io.StringIO())
    shown, paged = Terminal(), []
    monkeypatch.setattr(pydoc, "pager", paged.append)
    monkeypatch.delenv("NO_COLOR", raising=False)
    console = Console(
        file=shown, force_terminal=terminals != "neither", width=80, height=24, no_color=True
    )
    text = "".join(f"line {k}\n" for k in range(lines))
    write_paged(lambda console: console.out(text, end="", highlight=False), console)
    assert (paged, shown.getvalue()) == (([text], "") if is_paged else ([], text))


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_is_offered(shell):
    environment = {"_NORMDIAG_COMPLETE": f"source_{shell}"}
    result = CliRunner().invoke(app, [], prog_name="normdiag", env=environment)
    assert result.exit_code == 0 and "_NORMDIAG_COMPLETE" in result.stdout


@pytest.mark.parametrize("pager", ["no-such-pager -R", "'an open quote"])
def test_a_pager_that_is_not_there_loses_nothing(monkeypatch, pager):
    monkeypatch.setenv("PAGER", pager)
    monkeypatch.delenv("MANPAGER", raising=False)
    monkeypatch.setattr(sys, "stdin", Terminal())
    shown = Terminal()
    console = Console(file=shown, force_terminal=True, width=80, height=24, no_color=True)
    text = "".join(f"line {k}\n" for k in range(30))
    write_paged(lambda console: console.out(text, end="", highlight=False), console)
    assert shown.getvalue() == text
