"""A model with every name replaced, and an architecture without any."""

from __future__ import annotations

import dataclasses
import random
import re
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
    # all are read before any is replaced: parameters are listed by way of the modules
    listings = {
        listing: [(names.path(path), value) for path, value in getattr(model, listing)()]
        for listing in ("named_modules", "named_parameters", "named_buffers")
    }
    for listing, named in listings.items():
        setattr(model, listing, _list_again(named))
    return model


def _list_again(named: list[tuple[str, Any]]) -> Any:
    def listing(*args: Any, **kwargs: Any) -> Iterator[tuple[str, Any]]:
        return iter(named)

    return listing


def number_labels(found: Architecture) -> Any:
    """The architecture without classes, and with a number, by first appearance, for each part of
    each path: which label lies in which module is kept, and so is what it ends in (`/add#1`).

    The id of a stack has one number as a whole: it is the path of the list of its layers, and where
    there is one layer a position in it, "0", is what tells the list.
    """
    numbers: dict[str, int] = {}

    def number(label: str) -> tuple[tuple[int, ...], str]:
        path = re.split("[/@]", label, maxsplit=1)[0]
        parts = path.split(".") if path else []
        return tuple(numbers.setdefault(p, len(numbers)) for p in parts), label[len(path) :]

    stacks = {stack.id: i for i, stack in enumerate(found.stacks)}

    def walk(value: Any, key: str, kind: str) -> Any:
        if isinstance(value, dict):
            return {k: walk(v, k, key) for k, v in value.items() if k != "class_"}
        if isinstance(value, list | tuple):
            return [walk(v, key, kind) for v in value]
        if not isinstance(value, str):
            return value
        if key == "stack" or (kind, key) == ("stacks", "id"):
            return stacks[value]
        return number(value) if _is_label(key) else value

    return walk(dataclasses.asdict(found), "", "")


def _is_label(key: str) -> bool:
    """Whether a key of the architecture holds paths: of sites, modules, parameters."""
    names = ("id", "add", "module", "name", "raw_readers")
    return key in names or key.endswith(("_norm", "_norms", "_module"))
