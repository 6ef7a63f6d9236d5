"""A model with every name replaced, and an architecture without any."""

from __future__ import annotations

import dataclasses
import random
import string
from collections.abc import Iterator
from typing import Any

from torch import nn

from normdiag.evidence.architecture import Architecture


class Names:
    """One random word per name."""

    def __init__(self, seed: int) -> None:
        self._draws = random.Random(seed)
        self._words: dict[str, str] = {}

    def word(self, name: str) -> str:
        if name not in self._words:
            self._words[name] = "".join(self._draws.choices(string.ascii_lowercase, k=9))
        return self._words[name]

    def path(self, path: str) -> str:
        return ".".join(map(self.word, path.split("."))) if path else ""


def rename_modules(model: nn.Module, seed: int) -> nn.Module:
    """The same model: each module of a class of another name, and each module, parameter and
    buffer at another path."""
    names = Names(seed)
    for module in model.modules():
        cls = type(module)
        module.__class__ = type(names.word(cls.__name__), (cls,), {"__module__": cls.__module__})
    for listing in ("named_modules", "named_parameters", "named_buffers"):
        named = [(names.path(path), value) for path, value in getattr(model, listing)()]
        setattr(model, listing, _list_again(named))
    return model


def _list_again(named: list[tuple[str, Any]]) -> Any:
    def listing(*args: Any, **kwargs: Any) -> Iterator[tuple[str, Any]]:
        return iter(named)

    return listing


def number_labels(found: Architecture) -> Any:
    """The architecture with a number, by first appearance, for each id and each module."""
    numbers: dict[tuple[str, str], int] = {}

    def number(space: str, label: str) -> int:
        return numbers.setdefault((space, label), len(numbers))

    def walk(value: Any, key: str, kind: str) -> Any:
        if isinstance(value, dict):
            return {k: walk(v, k, kind) for k, v in value.items() if k != "class_"}
        if isinstance(value, list | tuple):
            return [walk(v, key, kind) for v in value]
        if not isinstance(value, str):
            return value
        if key == "id" or key == "stack":
            return number(kind if key == "id" else "stacks", value)
        if key == "add":  # of an exception
            return number("residual_adds", value)
        if key == "module":
            return number("modules", value)
        if key == "name":  # of a tensor that multiplies a branch
            return number("tensors", value)
        return number("norms", value) if key.endswith(("_norm", "_norms")) else value

    parts = dataclasses.asdict(found).items()
    return {kind: walk(value, kind, kind) for kind, value in parts}
