"""Return freed memory to the system at once, so that a run holds no more than it uses."""

from __future__ import annotations

import ctypes
import sys

# Of glibc's malloc.h. By default glibc raises the threshold with every large block that is freed:
# after a forward it may hold some hundred MB that nothing uses.
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_TRIM_THRESHOLD = 32 << 20
_MMAP_THRESHOLD = 1 << 20


def trim_malloc() -> None:
    """Lower glibc's thresholds for returning freed blocks; do nothing with another C library."""
    if sys.platform != "linux":
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, _MMAP_THRESHOLD)
        mallopt(_M_TRIM_THRESHOLD, _TRIM_THRESHOLD)
