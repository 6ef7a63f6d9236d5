"""An exception of somebody else's code, in one line."""

from __future__ import annotations

import traceback
from pathlib import Path

_LONGEST = 300


def describe_exception(error: BaseException, *, with_location: bool = False) -> str:
    """`ValueError: what it said`, on one line; with `place`, the file and line that raised it."""
    said = " ".join(str(error).split())
    if len(said) > _LONGEST:
        said = said[:_LONGEST] + " ..."
    line = f"{type(error).__name__}: {said}" if said else type(error).__name__
    frames = traceback.extract_tb(error.__traceback__)
    if with_location and frames:
        line += f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})"
    return line
