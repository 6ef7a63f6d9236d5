"""stdout, where the report goes and nothing else."""

from __future__ import annotations

import io
import sys

from rich.console import Console


class _Console(Console):
    def on_broken_pipe(self) -> None:
        # Called while that error is handled. rich would exit 1, which is how a gate fails.
        raise


def stdout() -> Console:
    """A console on stdout; what its encoding does not have is spelled out, not an error.

    Raises BrokenPipeError on writing where the reader has gone.
    """
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    return _Console()
