"""The node of a live tensor, by storage, version and geometry, never by Python object.

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
        """The first value that covered all of it, or what was written to all of it since."""
        self.values: dict[Geometry, Node] = {}


def _tensor_geometry(tensor: torch.Tensor) -> Geometry:
    return (tensor.storage_offset(), tensor.shape, tensor.stride(), tensor.dtype)


def _is_part(tensor: torch.Tensor) -> bool:
    return tensor.numel() * tensor.element_size() < tensor.untyped_storage().nbytes()


class TensorIdentity:
    """Maps live tensors to nodes."""

    def __init__(self) -> None:
        self._storages: dict[int, _Storage] = {}
        self._opaque: dict[int, tuple[weakref.ref[torch.Tensor], Node]] = {}

    def find_node(self, tensor: torch.Tensor) -> Node | None:
        """The node whose value `tensor` holds now, or None for an unknown tensor."""
        try:
            storage = self._storages.get(tensor.untyped_storage()._cdata)
            if storage is None:
                return None
            return storage.values.get(_tensor_geometry(tensor)) or storage.writer
        except (RuntimeError, NotImplementedError):  # sparse, nested: no storage
            reference, node = self._opaque.get(id(tensor), (None, None))
            return node if reference is not None and reference() is tensor else None

    def bind_tensor(self, tensor: torch.Tensor, node: Node) -> None:
        """Bind `tensor`, the value of `node`: a new value, or a new view of an old one."""
        try:
            storage = self._find_storage(tensor)
            storage.values[_tensor_geometry(tensor)] = node
            if storage.whole is None and not _is_part(tensor):
                storage.whole = node
        except (RuntimeError, NotImplementedError):
            self._opaque[id(tensor)] = (weakref.ref(tensor), node)

    def record_write(self, tensor: torch.Tensor, node: Node) -> bool:
        """Record that `node` wrote through `tensor`, so that other views of it have new values too.

        Returns whether `tensor` is only a part of its storage.
        """
        try:
            storage = self._find_storage(tensor)
            storage.values = {_tensor_geometry(tensor): node}
            storage.writer = node
            if _is_part(tensor):
                return True
            storage.whole = node
            return False
        except (RuntimeError, NotImplementedError):
            self._opaque[id(tensor)] = (weakref.ref(tensor), node)
            return False

    def record_storage_write(self, tensor: torch.Tensor, node: Node) -> None:
        """Record that all views of the storage, except those bound since, have the value `node`."""
        storage = self._find_storage(tensor)
        storage.writer = storage.whole = node

    def find_storage_node(self, tensor: torch.Tensor) -> Node | None:
        """The node of the whole storage that `tensor` may be only a part of."""
        try:
            storage = self._storages.get(tensor.untyped_storage()._cdata)
        except (RuntimeError, NotImplementedError):
            return self.find_node(tensor)
        whole = None if storage is None else storage.whole
        return whole or self.find_node(tensor)

    def _find_storage(self, tensor: torch.Tensor) -> _Storage:
        raw = tensor.untyped_storage()
        storage = self._storages.get(raw._cdata)
        if storage is None:
            pin = StorageWeakRef(raw)  # type: ignore[no-untyped-call]
            storage = self._storages[raw._cdata] = _Storage(pin)
        return storage
