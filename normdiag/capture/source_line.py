"""The running line of the model's code."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path
from types import FrameType

import torch

_OWN = str(Path(__file__).parent.parent)
_TORCH = str(Path(torch.__file__).parent)
_PLACER = find_spec("accelerate")
"""Its hooks run around the forward of a module whose weights are offloaded."""
_HIDDEN = (_OWN, _TORCH, *((_PLACER and _PLACER.submodule_search_locations) or ()))


def source_line() -> str | None:
    """`file:line` of the innermost frame that belongs to none of torch, accelerate and normdiag."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        file = frame.f_code.co_filename
        if not file.startswith(_HIDDEN) and not file.startswith("<"):
            return f"{_shorten_path(file)}:{frame.f_lineno}"
        frame = frame.f_back
    return None


def _shorten_path(file: str) -> str:
    """Without the part of the path that differs from machine to machine."""
    path = Path(file)
    for marker in ("site-packages", "dist-packages"):
        if marker in path.parts:
            return str(Path(*path.parts[path.parts.index(marker) + 1 :]))
    return path.name
