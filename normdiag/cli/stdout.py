"""stdout, where the report goes and nothing else."""

from __future__ import annotations

import io
import sys

from rich.console import Console


def stdout() -> Console:
    """A console on stdout; what its encoding does not have is spelled out, not an error."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    return Console()
