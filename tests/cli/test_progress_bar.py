"""Progress is drawn on a terminal's stderr and nowhere else."""

import io
import sys

import pytest

from normdiag.cli.progress_bar import show_progress


class Terminal(io.StringIO):
    """Text that says it is a terminal."""

    def isatty(self):
        return True


@pytest.fixture
def on_terminal(monkeypatch):
    """Make stderr a terminal; called within the test, since pytest sets stderr before that."""

    def start():
        monkeypatch.setenv("TERM", "xterm-256color")
        monkeypatch.setattr(sys, "stderr", Terminal())
        return sys.stderr

    return start


def test_nothing_is_drawn_where_stderr_is_no_terminal(monkeypatch):
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    with show_progress() as bar:
        assert bar is None
    assert sys.stderr.getvalue() == ""


def test_work_is_drawn_on_stderr(on_terminal, capsys):
    terminal = on_terminal()
    with show_progress() as bar:
        bar.start_stage("reading tensors", 3)
        bar.advance_stage()
        bar.advance_stage(2)
        bar.finish_stage()
        bar.start_stage("running the model")
        bar.finish_stage()
    assert "reading tensors" in terminal.getvalue()
    assert "running the model" in terminal.getvalue()
    assert "100%" in terminal.getvalue()
    assert capsys.readouterr().out == ""


def test_what_is_written_to_stdout_meanwhile_stays_there(on_terminal, capsys):
    terminal = on_terminal()
    with show_progress() as bar:
        bar.start_stage("reading tensors", 3)
        sys.stdout.write("the report\n")
        bar.finish_stage()
    assert capsys.readouterr().out == "the report\n"
    assert "the report" not in terminal.getvalue()


def test_a_hostile_target_is_spelled_out(on_terminal):
    terminal = on_terminal()
    with show_progress() as bar:
        bar.start_stage("loading [red]a[/red]\x1b]0;owned\x07")
        bar.finish_stage()
    assert "loading [red]a[/red]\\x1b]0;owned\\x07" in terminal.getvalue()
    assert "\x1b]0;" not in terminal.getvalue()


def test_the_cursor_comes_back_after_an_error(on_terminal):
    terminal = on_terminal()
    with pytest.raises(RuntimeError), show_progress() as bar:
        bar.start_stage("running the model", 2)
        raise RuntimeError
    assert terminal.getvalue().rindex("\x1b[?25h") > terminal.getvalue().rindex("\x1b[?25l")


def test_steps_without_a_start_draw_nothing(on_terminal):
    terminal = on_terminal()
    with show_progress() as bar:
        bar.advance_stage()
        bar.finish_stage()
    assert "%" not in terminal.getvalue()
