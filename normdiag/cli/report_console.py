"""The console on stdout, which carries the report and nothing else."""

from __future__ import annotations

import io
import sys

from rich.console import Console


class ReportConsole(Console):
    """A console that leaves a broken pipe to the command line."""

    def on_broken_pipe(self) -> None:
        # Called while that error is handled. rich would exit 1, which is how a gate fails.
        raise


def open_report_console() -> ReportConsole:
    """Open a console on stdout; characters that its encoding lacks are written as escapes.

    Writing raises BrokenPipeError where the reader has closed the pipe.
    """
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    return ReportConsole()
