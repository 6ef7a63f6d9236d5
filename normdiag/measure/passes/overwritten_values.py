"""Values that a forward overwrites in place, kept for the backward."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from weakref import WeakKeyDictionary

from torch.autograd.graph import allow_mutation_on_saved_tensors


class _Originals(WeakKeyDictionary[Any, Any]):
    """The tensors that autograd saved, of which none dies before the context does."""

    def __init__(self) -> None:
        super().__init__()
        self._kept: list[Any] = []

    def __delitem__(self, handle: Any) -> None:
        self._kept.append(self[handle])
        super().__delitem__(handle)


@contextmanager
def keep_overwritten_values() -> Iterator[None]:
    """As PyTorch's `allow_mutation_on_saved_tensors`, also where saved tensors are empty.

    It tells saved tensors by `id`, address and version, and drops one that it has copied. Empty
    tensors have no address: the next one with the same `id` was taken for it, so that an expert
    that is sent no token got another's rows. Here the `id` stays taken.
    """
    with allow_mutation_on_saved_tensors() as context:
        context.original = _Originals()
        yield
