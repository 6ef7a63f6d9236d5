"""What the head, or the caller of a model without one, receives."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from normdiag.evidence.stream import HeadInput
from normdiag.graph import Node
from normdiag.measure.passes.forward import Pass
from normdiag.measure.statistics.rows import to_rows
from normdiag.structure.attachments import StackStructure
from normdiag.structure.flow import step_back
from normdiag.structure.forms import NormForm
from normdiag.structure.operations import is_contraction


@dataclass(slots=True)
class HeadSums:
    """Sums over passes of the last stack's last value after its last norms, padding left out."""

    squares: float = 0.0
    count: int = 0
    largest: float = 0.0
    is_known: bool = True
    """False once a pass did not keep that value."""

    def take(self, done: Pass) -> None:
        """One pass more."""
        end = _end(max(done.stacks, key=lambda s: s.adds[-1].add.index)) if done.stacks else None
        value = done.sites.recent.get(end) if end is not None else None
        if end is None or value is None:
            self.is_known = False
            return
        last = done.sites.adds.get(max(done.sites.adds, key=lambda a: a.index))
        axis = last.axis if last is not None else -1
        lead = tuple(s for i, s in enumerate(value.shape) if i != value.dim() + axis)
        valid = done.layouts.of(end).tokens(lead).valid
        rows = to_rows(value, (axis,))
        kept = (rows if valid is None else rows[valid]).double()
        scale = abs(_scale_to_head(done, end))
        self.squares += float(kept.square().sum()) * scale**2
        self.count += kept.numel()
        largest = float(kept.abs().max()) * scale if kept.numel() else 0.0
        self.largest = float(np.maximum(self.largest, largest))  # a NaN stays one

    def result(self) -> HeadInput | None:
        """None where some pass did not keep the value."""
        if not self.is_known or not self.count:
            return None
        return HeadInput(rms=math.sqrt(self.squares / self.count), max_abs=self.largest)


def _scale_to_head(done: Pass, end: Node) -> float:
    """The constant that the value is multiplied by before the head's weights meet it."""
    last = end
    if isinstance(end.form, NormForm) and end.form.norm.output is not None:
        last = end.form.norm.output
    for node in done.graph.nodes[last.index + 1 :]:
        if not is_contraction(node):
            continue
        for operand in node.parents:
            scale, at = 1.0, operand
            while at is not last and (step := step_back(at)) is not None:
                at, factor = step
                if factor is not None:
                    scale *= factor.value if isinstance(factor.value, float) else 1.0
            if at is last:
                return scale
    return 1.0


def _end(stack: StackStructure) -> Node:
    last = stack.adds[-1]
    norms = (*last.stream_norms, *stack.final_norms)
    return norms[-1].node if norms else last.add.node
