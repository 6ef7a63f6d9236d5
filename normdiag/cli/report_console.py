"""The console on stdout, which carries the report and nothing else."""

from __future__ import annotations

import io
import os
import pydoc
import shlex
import shutil
import sys
from collections.abc import Callable
from typing import Literal

from rich.console import Console


class ReportConsole(Console):
    """A console that leaves a broken pipe to the command line."""

    def on_broken_pipe(self) -> None:
        # Called while that error is handled. rich would exit 1, which is how a gate fails.
        raise


def open_report_console(*, has_color: bool | None = None) -> ReportConsole:
    """Open a console on stdout; characters that its encoding lacks are written as escapes.

    `has_color`: whether there are colours; None: where stdout is a terminal that has them.
    Writing raises BrokenPipeError where the reader has closed the pipe.
    """
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    if has_color is None:
        return ReportConsole()
    system: Literal["standard"] | None = "standard" if has_color else None
    return ReportConsole(no_color=not has_color, color_system=system)


def write_paged(render: Callable[[Console], None], console: Console) -> None:
    """Write to the console; by the user's pager where that is a terminal with too few lines."""
    if not console.is_terminal or sys.stdin is None or not sys.stdin.isatty() or _lacks_pager():
        render(console)
        return
    with console.capture() as capture:
        render(console)
    text = capture.get()
    if text.count("\n") < console.height:
        console.file.write(text)
        return
    os.environ.setdefault("LESS", "-FRX")  # colours, and no screen of its own that it would clear
    pydoc.pager(text)


def _lacks_pager() -> bool:
    """Whether $PAGER names no program, whose failure would lose the text."""
    pager = os.environ.get("MANPAGER") or os.environ.get("PAGER")
    if not pager:  # then pydoc finds one that is there
        return False
    try:
        words = shlex.split(pager)
    except ValueError:  # an open quote: the shell refuses it as well
        return True
    return not words or shutil.which(words[0]) is None
