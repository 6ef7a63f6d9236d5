"""A stderr on which a failed write goes unnoticed: messages never change the exit code."""

from __future__ import annotations

import io
import os
import sys
from typing import Any


class LossyFile(io.FileIO):
    """A file that drops what cannot be written: no space left, or a pipe without a reader."""

    def write(self, data: Any) -> int:
        """Write `data`; its length, whether it was written or not."""
        try:
            return super().write(data)
        except OSError:
            return len(memoryview(data).cast("B"))


def tolerate_lost_messages() -> None:
    """Replace sys.stderr for good by one that never raises; where there is none, by nothing.

    Libraries and models write to it as well, and Python flushes it at exit.
    """
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115
        return
    try:
        descriptor = sys.stderr.fileno()
    except (OSError, ValueError, AttributeError):
        return
    sys.stderr = io.TextIOWrapper(
        io.BufferedWriter(LossyFile(descriptor, "w", closefd=False)),
        encoding=sys.stderr.encoding,
        errors="backslashreplace",
        line_buffering=True,
    )
