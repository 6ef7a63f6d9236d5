"""An exception of foreign code, in one line."""

from __future__ import annotations

import traceback
from pathlib import Path

_MAX_LENGTH = 300


def describe_exception(error: BaseException, *, with_location: bool = False) -> str:
    """Type and message on one line, cut to 300 characters; optionally with file and line."""
    message = " ".join(str(error).split())
    if len(message) > _MAX_LENGTH:
        message = message[:_MAX_LENGTH] + " ..."
    line = f"{type(error).__name__}: {message}" if message else type(error).__name__
    frames = traceback.extract_tb(error.__traceback__)
    if with_location and frames:
        line += f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})"
    return line
