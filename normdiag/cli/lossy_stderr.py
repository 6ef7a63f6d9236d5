"""A stderr on which a failed write goes unnoticed: messages never change the exit code."""

from __future__ import annotations

import io
import os
import sys
from typing import Any, cast


class LossyFile(io.FileIO):
    """A file that drops what cannot be written: no space left, or a pipe without a reader."""

    def write(self, data: Any) -> int:
        """Write all of `data`; its length, whether it was written or not."""
        rest = memoryview(data).cast("B")
        length = len(rest)
        try:
            while rest and (written := super().write(rest)):  # None where it would block
                rest = rest[written:]
        except OSError:
            pass
        return length


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
        # without a buffer, which would repeat a message whose write an interrupt has cut off
        cast("Any", LossyFile(descriptor, "w", closefd=False)),
        encoding=sys.stderr.encoding,
        errors="backslashreplace",
        line_buffering=True,
        write_through=True,
    )
