"""Keeps Python's garbage collector from walking the whole process again and again.

A recorded forward makes tens of thousands of nodes, and every so often that sets off a collection
over all objects there are: a fifth of the time of a forward, for torch and transformers alone.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def unhurried() -> Iterator[None]:
    """Meanwhile what was there before is not looked at; what is made is collected as ever."""
    if gc.get_freeze_count():  # someone else's
        yield
        return
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
