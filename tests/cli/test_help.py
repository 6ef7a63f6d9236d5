"""Help fits a terminal and is plain; every option has some."""

import pytest
from rich.cells import cell_len

from normdiag.cli.reference import list_commands

COMMANDS = ("inspect", "trace", "check", "compare", "render", "rules", "schema")


def test_the_commands_are_these(run):
    shown = run("--help").stdout.partition("Commands:\n")[2]
    assert tuple(line.split()[0] for line in shown.splitlines()) == COMMANDS


def test_a_command_is_told_in_one_whole_line(run):
    assert "..." not in run("--help").stdout.partition("Commands:\n")[2]


@pytest.mark.parametrize("command", ((), *((name,) for name in COMMANDS)))
def test_help_fits_80_columns(run, command):
    result = run(*command, "--help")
    assert result.exit_code == 0
    assert result.stderr == ""
    assert "\x1b" not in result.stdout
    assert max(map(cell_len, result.stdout.splitlines())) <= 80


def test_options_stand_under_their_headings(run):
    shown = run("inspect", "--help").stdout
    headings = [line for line in shown.splitlines() if line.endswith(":") and line[0] != " "]
    assert headings == [
        "Arguments:",
        "Loading:",
        "Inputs:",
        "Measuring:",
        "Judging:",
        "Gate:",
        "Output:",
        "Other:",
    ]


@pytest.mark.parametrize(("name", "command"), list(list_commands()))
def test_every_option_has_help_and_every_command_examples(name, command):
    assert all(option.help for option in command.params)
    examples = command.help.partition("\b\n")[2].splitlines()
    assert examples
    assert all(f"normdiag {name}" in example for example in examples)


def test_short_help_is_help(run):
    assert run("rules", "-h").stdout == run("rules", "--help").stdout


def test_no_command_is_usage(run):
    result = run()
    assert result.exit_code == 2
    assert "Commands:" in result.output


def test_version(run):
    from normdiag import __version__

    assert run("--version").stdout == f"normdiag {__version__}\n"
