"""Freed memory goes back to the system at once, so that a run needs what it holds and no more."""

from __future__ import annotations

import ctypes
import sys

# Of glibc's malloc.h. Left to itself glibc learns from every large block that is freed to keep the
# next one: after a forward it may hold some hundred MB that nothing uses.
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
_KEPT = 32 << 20
_LARGE = 1 << 20


def give_back() -> None:
    """Ask the C library for it; where it is another than glibc nothing happens."""
    if sys.platform != "linux":
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_MMAP_THRESHOLD, _LARGE)
        mallopt(_TRIM_THRESHOLD, _KEPT)
