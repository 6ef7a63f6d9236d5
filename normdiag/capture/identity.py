"""Which node a tensor is: by storage, version and geometry, never by Python object.

A view of a written tensor is a new value even though no operation touched the view, and two
Python objects can be one value. Storages are pinned by C-level weak references: the address
cannot be used again while the reference is held, and the data is freed all the same.
"""

from __future__ import annotations

import weakref
from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from normdiag.graph import Node

Geometry = tuple[Any, ...]


class _Storage:
    __slots__ = ("pin", "values", "whole", "writer")

    def __init__(self, pin: StorageWeakRef) -> None:
        self.pin = pin
        self.writer: Node | None = None
        self.whole: Node | None = None
        """The first value that took in all of it, or what was written to all of it since."""
        self.values: dict[Geometry, Node] = {}


def _geometry(tensor: torch.Tensor) -> Geometry:
    return (tensor.storage_offset(), tensor.shape, tensor.stride(), tensor.dtype)


def _is_part(tensor: torch.Tensor) -> bool:
    return tensor.numel() * tensor.element_size() < tensor.untyped_storage().nbytes()


class Identity:
    """Maps live tensors to nodes."""

    def __init__(self) -> None:
        self._storages: dict[int, _Storage] = {}
        self._opaque: dict[int, tuple[weakref.ref[torch.Tensor], Node]] = {}

    def node_of(self, tensor: torch.Tensor) -> Node | None:
        """The node whose value `tensor` holds now, or None where it was never seen."""
        try:
            storage = self._storages.get(tensor.untyped_storage()._cdata)
            if storage is None:
                return None
            return storage.values.get(_geometry(tensor)) or storage.writer
        except (RuntimeError, NotImplementedError):  # sparse, nested: no storage
            seen = self._opaque.get(id(tensor))
            return seen[1] if seen is not None and seen[0]() is tensor else None

    def bind(self, tensor: torch.Tensor, node: Node) -> None:
        """`tensor` was made by `node`: a new value, or a new view of an old one."""
        try:
            storage = self._storage(tensor)
            storage.values[_geometry(tensor)] = node
            if storage.whole is None and not _is_part(tensor):
                storage.whole = node
        except (RuntimeError, NotImplementedError):
            self._opaque[id(tensor)] = (weakref.ref(tensor), node)

    def write(self, tensor: torch.Tensor, node: Node) -> bool:
        """`node` wrote through `tensor`: every other view of its storage has a new value too.

        Returns whether `tensor` is only a part of its storage.
        """
        try:
            storage = self._storage(tensor)
            storage.values = {_geometry(tensor): node}
            storage.writer = node
            if _is_part(tensor):
                return True
            storage.whole = node
            return False
        except (RuntimeError, NotImplementedError):
            self._opaque[id(tensor)] = (weakref.ref(tensor), node)
            return False

    def write_whole(self, tensor: torch.Tensor, node: Node) -> None:
        """Every view of the storage, except those bound after the write, now reads `node`."""
        storage = self._storage(tensor)
        storage.writer = storage.whole = node

    def whole_of(self, tensor: torch.Tensor) -> Node | None:
        """The value of all of the storage that `tensor` may be only a part of."""
        try:
            storage = self._storages.get(tensor.untyped_storage()._cdata)
        except (RuntimeError, NotImplementedError):
            return self.node_of(tensor)
        whole = None if storage is None else storage.whole
        return whole or self.node_of(tensor)

    def _storage(self, tensor: torch.Tensor) -> _Storage:
        raw = tensor.untyped_storage()
        storage = self._storages.get(raw._cdata)
        if storage is None:
            pin = StorageWeakRef(raw)  # type: ignore[no-untyped-call]
            storage = self._storages[raw._cdata] = _Storage(pin)
        return storage
