"""The command line. The one place where an error becomes a message and an exit code."""

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
from normdiag.cli.commandline import Commands
from normdiag.cli.compare import compare
from normdiag.cli.gather import flat
from normdiag.cli.help import Sectioned
from normdiag.cli.inspect import inspect
from normdiag.cli.messages import hanging, say
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
    cls=Commands,
    no_args_is_help=True,
    add_completion=False,
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
        typer.Option("--version", callback=_print_version, is_eager=True, help="Print it."),
    ] = False,
) -> None:
    """Diagnose the norms and the residual stream of transformer checkpoints.

    stdout is the report and nothing else; progress, warnings and a summary line go to stderr.

    Exit codes: 0 passed; 1 a finding reached --fail-on; 2 usage or settings; 3 the target cannot
    be loaded or run; 4 evidence is incomplete under --require-complete; 5 a fault of normdiag.
    """


def _answering(command: Command) -> Command:
    """`command`, with whatever goes wrong in it said on stderr and turned into an exit code."""

    @wraps(command)
    def answered(**given: Any) -> None:
        try:
            try:
                command(**given)
            finally:
                _flush()
        except typer.Exit:
            raise
        except (Exception, KeyboardInterrupt) as error:
            debug = bool(given.get("verbose")) or "NORMDIAG_DEBUG" in os.environ
            raise typer.Exit(_answer(error, debug)) from error

    return answered


def _answer(error: BaseException, debug: bool) -> int:
    """Say what went wrong; return the exit code for it."""
    match error:
        case NormdiagError():
            hint = "" if error.hint is None else f"\nhint: {hanging(error.hint)}"
            say(f"error: {hanging(error.what)}{hint}")
            return error.exit_code
        case KeyboardInterrupt():
            say("interrupted")
            return INTERRUPTED
        case BrokenPipeError():
            _abandon_stdout()
            return BROKEN_PIPE
        case OSError(errno=errno.ENOSPC | errno.EDQUOT):
            _abandon_stdout()
            say(f"error: the report is not whole: {error.strerror}\nhint: make room first")
            return ExitCode.USAGE
        case _:
            _say_fault(error, debug)
            return ExitCode.INTERNAL


def _flush() -> None:
    # None where the parent process has closed stdout: then no report is wanted.
    if sys.stdout is not None:
        sys.stdout.flush()


def _abandon_stdout() -> None:
    """Give up on stdout, whose reader or room is gone; else the last flush of Python complains."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _say_fault(error: BaseException, debug: bool) -> None:
    if debug:
        say("".join(traceback.format_exception(error)))
    line = "".join(traceback.format_exception_only(error)).strip()
    fault = "This is a fault of normdiag, not of your target. Please report it."
    say(f"error: {hanging(line)}\n{fault}")
    if not debug:
        say("hint: set NORMDIAG_DEBUG=1 to see where it happened")


for command in COMMANDS:
    app.command(cls=Sectioned)(_answering(flat(command)))
