"""The stack of running modules, from torch's global module hooks.

Global hooks leave the model's own hook dictionaries untouched. They are called for the modules of
every thread, and those of other threads are passed over.
"""

from __future__ import annotations

import threading
from typing import Any

import torch
from torch import nn
from torch.nn.modules.module import (
    register_module_forward_hook,
    register_module_forward_pre_hook,
)

from normdiag.graph import Frame

_COMPILED = "_orig_mod"
"""The attribute of a compiled module that holds the original one."""


def plain_path(path: str) -> str:
    """The path of a module without the wrappers of `torch.compile`."""
    return ".".join(part for part in path.split(".") if part != _COMPILED)


class Scopes:
    """Context manager; `current` is the innermost running module's frame."""

    def __init__(self, model: nn.Module) -> None:
        named = list(model.named_modules(remove_duplicate=True))
        self._paths = {id(module): plain_path(path) for path, module in named}
        self._wrapped = {id(m) for path, m in named if path.split(".")[-1] == _COMPILED}
        self._root = Frame("", 0, type(model).__name__, None)
        self._stack: list[Frame] = [self._root]
        self._thread = threading.get_ident()
        self._handles: list[torch.utils.hooks.RemovableHandle] = []
        self.calls: dict[str, int] = {}

    @property
    def current_frame(self) -> Frame:
        return self._stack[-1]

    def __enter__(self) -> Scopes:
        self._handles = [
            register_module_forward_pre_hook(self._enter_module),
            register_module_forward_hook(self._leave_module, always_call=True),
        ]
        return self

    def __exit__(self, *exc: object) -> None:
        for handle in self._handles:
            handle.remove()
        self._handles = []

    def _enter_module(self, module: nn.Module, args: Any) -> None:
        if threading.get_ident() != self._thread:
            return
        if id(module) in self._wrapped:
            self._stack.append(self.current_frame)
            return
        path = self._paths.get(id(module))
        if path is None:  # created during the forward: it has no place in the tree
            parent = self.current_frame
            self._stack.append(Frame(parent.path, parent.call, parent.label, parent))
            return
        call = self.calls.get(path, 0)
        self.calls[path] = call + 1
        label = type(getattr(module, _COMPILED, module)).__name__
        self._stack.append(Frame(path, call, label, self.current_frame))

    def _leave_module(self, module: nn.Module, args: Any, output: Any) -> None:
        if threading.get_ident() == self._thread and len(self._stack) > 1:
            self._stack.pop()
