"""Whatever goes wrong is one message on stderr and one exit code, and never a traceback."""

import pytest
import typer
from typer.testing import CliRunner

from normdiag import errors
from normdiag.cli import app as cli
from normdiag.cli.option_groups import expand_option_groups


@pytest.fixture
def fails():
    """Run a command that raises `error`."""

    def run(error, verbose=False):
        def command(verbose: bool = False) -> None:
            """Fail."""
            typer.echo("half of the report")
            raise error

        app = typer.Typer(rich_markup_mode=None)
        app.command()(cli._handle_errors(expand_option_groups(command)))
        return CliRunner().invoke(app, ["--verbose"] if verbose else [])

    return run


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.UsageError, 2),
        (errors.TargetError, 3),
        (errors.LoadError, 3),
        (errors.RunError, 3),
        (errors.ReportError, 3),
        (errors.IncompleteError, 4),
        (errors.NormdiagError, 5),
    ],
)
def test_an_error_is_its_message_and_its_exit_code(fails, error, code):
    result = fails(error("the cat is on the mat", "call the cat"))
    assert result.exit_code == code
    assert result.stderr == "error: the cat is on the mat\nhint: call the cat\n"
    assert result.stdout == "half of the report\n"


def test_an_error_without_a_hint(fails):
    assert fails(errors.LoadError("the cat is away")).stderr == "error: the cat is away\n"


def test_what_comes_from_outside_is_spelled_out(fails):
    result = fails(errors.LoadError("no \x1b[31m[red]layer\u202e\ud800\x07", "two\nlines\r"))
    assert result.stderr == (
        "error: no \\x1b[31m[red]layer\\u202e\\ud800\\x07\nhint: two\n  | lines\\r\n"
    )


def test_anything_else_is_a_fault_of_normdiag(fails):
    result = fails(ZeroDivisionError("by \x1b[31mzero"))
    assert result.exit_code == 5
    assert result.stderr.startswith("error: ZeroDivisionError: by \\x1b[31mzero\n")
    assert "internal error of normdiag" in result.stderr
    assert "NORMDIAG_DEBUG=1" in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize("how", ["variable", "option"])
def test_the_traceback_of_a_fault_is_there_for_the_asking(fails, monkeypatch, how):
    if how == "variable":
        monkeypatch.setenv("NORMDIAG_DEBUG", "1")
    result = fails(ZeroDivisionError("by \x1b[31mzero"), verbose=how == "option")
    assert result.exit_code == 5
    assert "Traceback (most recent call last)" in result.stderr
    assert __file__ in result.stderr
    assert "\x1b" not in result.stderr


def test_an_interrupt_is_not_a_fault(fails):
    result = fails(KeyboardInterrupt())
    assert result.exit_code == 130
    assert result.stderr == "interrupted\n"


def test_an_exit_code_goes_through(fails):
    assert fails(typer.Exit(1)).exit_code == 1


@pytest.mark.parametrize(
    "words",
    [
        ["inspekt"],
        ["inspect"],
        ["inspect", "a", "b"],
        ["inspect", "a", "--no-such-option"],
        ["inspect", "a", "--dtype", "int8"],
        ["inspect", "a", "--seed", "-1"],
        ["inspect", "a", "--seed", "one"],
        ["inspect", "a", "--format", "xml"],
        ["check", "a", "--fail-on", "fatal"],
    ],
    ids=" ".join,
)
def test_a_misused_option_is_usage(run, words):
    result = run(*words)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert "Traceback" not in result.stderr
