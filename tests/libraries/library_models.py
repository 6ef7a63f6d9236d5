"""Models of other libraries as lines of data: how each is made, its inputs, and the truth of it.

`{"call": "package.module:name", "args": [..], "settings": {..}}` makes a model, or an argument of
one; `{"object": ..}` is a class itself, `{"partial": .., "settings": ..}` one with settings, and
`{"tuple": [..]}` a tuple.
"""

from __future__ import annotations

import functools
import importlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import Any

import torch
from torch import nn

from tests.structure.families.inputs import build_inputs

_HERE = Path(__file__).parent


@dataclass(frozen=True, eq=False)
class LibraryModel:
    """One model of a library, or one of its settings."""

    name: str
    make: dict[str, Any]
    inputs: dict[str, Any]
    single_adds: int | None = 0
    """Residual adds outside the layers of every stack; None where they are not counted."""

    gains: float | None = None
    """Of every norm, where the library's own initial ones are no sound model's."""

    def build(self) -> tuple[nn.Module, dict[str, Any]]:
        """The model in eval mode as its library draws it, and what its forward takes."""
        torch.manual_seed(0)
        return make_value(self.make).float().eval(), build_inputs(self.inputs)

    def build_drawn(self) -> tuple[nn.Module, dict[str, Any]]:
        """The same with weights of the size that trained ones have, and no branch closed.

        Each matrix is drawn with 1 / sqrt(fan-in), whatever the library starts from: 0.02 at any
        width, copies of one layer, zeros, or memory that nobody wrote to.
        """
        model, inputs = self.build()
        draws = torch.Generator().manual_seed(0)
        with torch.no_grad():
            for parameter in model.parameters():
                if parameter.dim() > 1:
                    size = (parameter[0].numel() or 1) ** -0.5
                    parameter.copy_(size * torch.randn(parameter.shape, generator=draws))
            for gain in _norm_gains(model):
                if self.gains is not None or not gain.any():
                    gain.fill_(1.0 if self.gains is None else self.gains)
        return model, inputs


def _norm_gains(model: nn.Module) -> Iterator[torch.Tensor]:
    """The one-dimensional weights: no layer but a norm has one."""
    for module in model.modules():
        weight = getattr(module, "weight", None)
        if isinstance(weight, nn.Parameter) and weight.dim() == 1:
            yield weight


def make_value(given: Any) -> Any:
    """The object that a description stands for."""
    if isinstance(given, list):
        return [make_value(part) for part in given]
    if not isinstance(given, dict):
        return given
    settings = {name: make_value(value) for name, value in given.get("settings", {}).items()}
    args = [make_value(part) for part in given.get("args", ())]
    if "call" in given:
        return _find_object(given["call"])(*args, **settings)
    if "partial" in given:
        return functools.partial(_find_object(given["partial"]), *args, **settings)
    if "object" in given:
        return _find_object(given["object"])
    if "tuple" in given:
        return tuple(map(make_value, given["tuple"]))
    return {name: make_value(value) for name, value in given.items()}


def _find_object(path: str) -> Any:
    module, _, name = path.partition(":")
    return attrgetter(name)(importlib.import_module(module))


def library_models(library: str) -> dict[str, LibraryModel]:
    """The models of one library by name; `of` starts from another one's settings."""
    found: dict[str, LibraryModel] = {}
    for line in (_HERE / f"{library}.jsonl").read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        base = found.get(row.pop("of", ""))
        if base is not None:
            settings = base.make["settings"] | row.pop("settings")
            row = {"make": base.make | {"settings": settings}, "inputs": base.inputs, **row}
        found[row["name"]] = LibraryModel(**row)
    return found
