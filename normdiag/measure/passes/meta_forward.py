"""A forward on the meta device: its structure, without values."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn

from normdiag.capture.meta_forward_mode import MetaForwardMode
from normdiag.inputs.batch import Batch
from normdiag.inputs.tensors import map_input_tensors
from normdiag.measure.passes.forward_structure import ForwardStructure
from normdiag.measure.passes.learned_values import LearnedValues
from normdiag.measure.passes.recorded_forward import record_forward
from normdiag.measure.passes.structure_observer import StructureObserver


@dataclass(slots=True, kw_only=True)
class MetaForward(ForwardStructure):
    """Structure of one forward. Learned values are unknown, numbers in the code are not."""

    value_reads: tuple[str, ...]
    """Lines of code that read values, which were assumed."""


def run_meta_forward(model: nn.Module, batch: Batch) -> MetaForward:
    """One forward of a model on the meta device.

    Raises:
        RunError: forward raised, maybe because it decides by values.
    """
    observer, mode = StructureObserver(), MetaForwardMode()
    meta_batch = map_input_tensors(batch, lambda tensor: tensor.to("meta"))
    with torch.no_grad():
        _, graph = record_forward(model, meta_batch, observer, mode)
    return MetaForward(
        graph=graph,
        reader=observer.reader,
        learned=LearnedValues(observer.learned.values),
        value_reads=tuple(mode.value_reads),
    )
