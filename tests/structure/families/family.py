"""Model types as lines of data: settings, inputs, and the truth about each of their stacks."""

from __future__ import annotations

import csv
import importlib
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

import torch
import transformers
from torch import nn
from transformers import CONFIG_MAPPING, PreTrainedConfig

from tests.structure.families.inputs import build_inputs
from tests.structure.families.tiny import shrunk

_HERE = Path(__file__).parent


@dataclass(frozen=True, eq=False)
class Family:
    """One model type, or one of its settings."""

    name: str
    type: str
    settings: dict[str, Any]
    inputs: dict[str, Any]
    model: str | None = None
    """The class, where it is not what AutoModel gives."""
    config: str | None = None
    """The configuration class, where the type names none."""
    without: tuple[str, ...] = ()
    """Losses that need packages that are not there; none is called."""
    unset: dict[str, str] = field(default_factory=dict)
    """Per sub-module, an attribute of its output that the model reads and that nothing sets."""

    def build(self) -> tuple[nn.Module, dict[str, Any]]:
        """The model in eval mode with seeded weights, and what its forward takes."""
        torch.manual_seed(0)
        config = self._config()
        with _missing_losses(self.without):
            model = self._class(config)(config)
        for path, attribute in self.unset.items():
            model.get_submodule(path).register_forward_hook(_setting(attribute))
        return model.float().eval(), build_inputs(self.inputs)

    def _config(self) -> PreTrainedConfig:
        if self.config is not None:
            cls = getattr(transformers, self.config)
        else:
            cls = CONFIG_MAPPING[self.type]
        return cls(**shrunk(cls(), self.settings))

    def _class(self, config: PreTrainedConfig) -> Any:
        if self.model is None:
            return transformers.AutoModel.from_config
        found = getattr(transformers, self.model, None)
        if found is None:
            path = type(config).__module__.replace("configuration_", "modeling_")
            found = getattr(importlib.import_module(path), self.model)
        return found._from_config if issubclass(found, transformers.PreTrainedModel) else found


def _setting(attribute: str) -> Callable[[nn.Module, Any, Any], None]:
    def hook(module: nn.Module, args: Any, output: Any) -> None:
        setattr(output, attribute, None)

    return hook


class _NoLoss(nn.Module):
    """In place of a loss that is built with the model."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()
        self.num_labels, self.eos_coef, self.empty_weight = 2, 0.1, torch.ones(3)


@contextmanager
def _missing_losses(losses: tuple[str, ...]) -> Iterator[None]:
    if not losses:
        yield
        return
    with mock.patch(losses[0], _NoLoss), _missing_losses(losses[1:]):
        yield


@dataclass(frozen=True)
class Truth:
    """What is so of one stack, by its code; None and () where a fact has no one right value."""

    family: str
    path: str
    placement: frozenset[str]
    """All that are right, on close calls."""
    norm_kind: str | None
    adds: int | None
    norms: int | None
    qk_norm: bool | None
    final_norm: bool | None
    why: str = field(compare=False, default="")


def families(part: str) -> dict[str, Family]:
    """The families of one file, by name; `type@setting` starts from the settings of `type`."""
    found: dict[str, Family] = {}
    for line in (_HERE / f"{part}.jsonl").read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        base = found.get(row.pop("of", ""))
        if base is not None:
            row = {
                "type": base.type,
                "inputs": base.inputs,
                "model": base.model,
                "config": base.config,
                **row,
                "settings": base.settings | row["settings"],
            }
        row["without"] = tuple(row.get("without", ()))
        found[row["name"]] = Family(**{"type": row["name"], **row})
    return found


def truths(part: str) -> list[Truth]:
    """The truth about every stack of one file."""
    with (_HERE / f"{part}.csv").open(encoding="utf-8", newline="") as lines:
        return [_truth(row) for row in csv.DictReader(lines)]


def _truth(row: dict[str, str]) -> Truth:
    def count(name: str) -> int | None:
        return int(row[name]) if row[name] else None

    def flag(name: str) -> bool | None:
        return {"yes": True, "no": False, "": None}[row[name]]

    return Truth(
        family=row["family"],
        path=row["path"],
        placement=frozenset(filter(None, row["placement"].split("|"))),
        norm_kind=row["norm_kind"] or None,
        adds=count("adds"),
        norms=count("norms"),
        qk_norm=flag("qk_norm"),
        final_norm=flag("final_norm"),
        why=row["why"],
    )
