"""The command line, which turns errors into messages and exit codes."""

from __future__ import annotations

import errno
import os
import sys
import traceback
from collections.abc import Callable
from functools import wraps
from typing import Annotated, Any

import typer

from normdiag import __version__
from normdiag.cli.check import check
from normdiag.cli.command_classes import CommandGroup, SectionedCommand
from normdiag.cli.compare import compare
from normdiag.cli.inspect import inspect
from normdiag.cli.messages import indent_continuation, write_message
from normdiag.cli.option_groups import expand_option_groups
from normdiag.cli.render import render
from normdiag.cli.rules import rules
from normdiag.cli.schema import schema
from normdiag.cli.trace import trace
from normdiag.errors import ExitCode, NormdiagError

Command = Callable[..., None]

COMMANDS: tuple[Command, ...] = (inspect, trace, check, compare, render, rules, schema)

# What a shell reports for a program that these signals end; neither is among our own codes.
INTERRUPTED = 128 + 2
BROKEN_PIPE = 128 + 13

app = typer.Typer(
    cls=CommandGroup,
    no_args_is_help=True,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"normdiag {__version__}")
        raise typer.Exit


@app.callback()
def normdiag(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    """Diagnose the norms and the residual stream of transformer checkpoints.

    The report goes to stdout; progress, warnings and the names of written files go to stderr.

    Exit codes: 0 passed; 1 a finding reached --fail-on; 2 usage or settings; 3 the target cannot
    be loaded or run; 4 incomplete evidence under --require-complete; 5 internal error of normdiag.
    """


def _handle_errors(command: Command) -> Command:
    """Wrap `command` so that an error becomes a message on stderr and an exit code."""

    @wraps(command)
    def run_command(**values: Any) -> None:
        try:
            try:
                command(**values)
            finally:
                _flush_stdout()
        except typer.Exit:
            raise
        except BaseException as error:
            debug = bool(values.get("verbose")) or "NORMDIAG_DEBUG" in os.environ
            raise typer.Exit(_report_error(error, debug)) from error

    return run_command


def _report_error(error: BaseException, debug: bool) -> int:
    """Write what failed to stderr; return the exit code."""
    match error:
        case NormdiagError():
            hint = "" if error.hint is None else f"\nhint: {indent_continuation(error.hint)}"
            write_message(f"error: {indent_continuation(error.what)}{hint}")
            return error.exit_code
        case KeyboardInterrupt():
            write_message("interrupted")
            return INTERRUPTED
        case BrokenPipeError():
            _abandon_stdout()
            return BROKEN_PIPE
        case OSError(errno=errno.ENOSPC | errno.EDQUOT):
            _abandon_stdout()
            write_message(
                f"error: the report is incomplete: {error.strerror}\nhint: free some disk space"
            )
            return ExitCode.USAGE
        case _:
            _report_internal_error(error, debug)
            return ExitCode.INTERNAL


def _flush_stdout() -> None:
    # None where the parent process has closed stdout: then nobody reads the report.
    if sys.stdout is not None:
        sys.stdout.flush()


def _abandon_stdout() -> None:
    """Point stdout at the null device, or Python's flush at exit fails on it again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _report_internal_error(error: BaseException, debug: bool) -> None:
    if debug:
        write_message("".join(traceback.format_exception(error)))
    line = "".join(traceback.format_exception_only(error)).strip()
    blame = "This is an internal error of normdiag, not of your target. Please report it."
    write_message(f"error: {indent_continuation(line)}\n{blame}")
    if not debug:
        write_message("hint: set NORMDIAG_DEBUG=1 for the traceback")


for command in COMMANDS:
    app.command(cls=SectionedCommand)(_handle_errors(expand_option_groups(command)))
