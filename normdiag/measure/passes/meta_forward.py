"""A forward on the meta device: the structure that it tells, and no values."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import nn

from normdiag.inputs.batch import Batch
from normdiag.measure.passes.forward import Pass, Sampling, run
from normdiag.measure.passes.learned_values import LearnedValues
from normdiag.measure.passes.observer import Wanted
from normdiag.structure.describe import SiteMap, build_architecture


def run_without_values(model: nn.Module, batch: Batch) -> Pass:
    """One forward of a model on the meta device. Raises RunError, as every forward does."""
    bare = replace(
        batch,
        args=tuple(_without_values(value) for value in batch.args),
        inputs={name: _without_values(value) for name, value in batch.inputs.items()},
    )
    wanted = Wanted(stream=False, norms=False, values=False)
    return run(model, bare, wanted, Sampling())


def described(done: Pass) -> SiteMap:
    """Its sites; learned values are unknown, numbers in the code are not."""
    known = {node: value for node, value in done.sites.values.items() if not value.is_meta}
    return build_architecture(done.graph, done.reading.norms, done.stacks, LearnedValues(known))


def _without_values(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.to("meta")
    if isinstance(value, dict):
        return {key: _without_values(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        items = [_without_values(item) for item in value]
        return tuple(items) if isinstance(value, tuple) else items
    return value
