"""The input of the head, or what a model without one returns."""

from __future__ import annotations

import math
from dataclasses import dataclass

from normdiag.evidence.stream import HeadInput
from normdiag.graph import Node
from normdiag.measure.passes.forward import ForwardPass
from normdiag.measure.statistics.extremes import larger_value
from normdiag.measure.statistics.rows import leading_sizes, to_rows
from normdiag.structure.algebraic_forms import NormForm
from normdiag.structure.aten_operations import is_contraction
from normdiag.structure.dataflow import step_back
from normdiag.structure.feature_axis import axis_in
from normdiag.structure.stack_structure import StackStructure


@dataclass(slots=True)
class HeadInputAccumulator:
    """Accumulator of the last stack's last value after its last norms, padding left out."""

    squares: float = 0.0
    count: int = 0
    largest: float = 0.0
    is_known: bool = True
    """False once a pass did not keep that value."""

    def update(self, forward: ForwardPass) -> None:
        """Add one pass."""
        if not forward.stacks:
            self.is_known = False
            return
        node = head_input_node(max(forward.stacks, key=lambda s: s.adds[-1].add.index))
        value = forward.records.recent_outputs.get(node)
        if value is None:
            self.is_known = False
            return
        axis = axis_in(value.shape, max(forward.records.adds, key=lambda add: add.index))
        tokens = forward.layouts.layout_of(node).site_tokens(leading_sizes(value.shape, (axis,)))
        rows = to_rows(value, (axis,))
        numbers = (rows if tokens.valid is None else rows[tokens.valid]).double()
        scale = abs(_scale_to_head(forward, node))
        self.squares += float(numbers.square().sum()) * scale**2
        self.count += numbers.numel()
        largest = float(numbers.abs().max()) * scale if numbers.numel() else 0.0
        self.largest = larger_value(self.largest, largest)

    def merge(self, other: HeadInputAccumulator) -> None:
        """Add the passes of `other`."""
        self.squares += other.squares
        self.count += other.count
        self.largest = larger_value(self.largest, other.largest)
        self.is_known = self.is_known and other.is_known

    def compute(self) -> HeadInput | None:
        """None where some pass did not keep the value."""
        if not self.is_known or not self.count:
            return None
        return HeadInput(rms=math.sqrt(self.squares / self.count), max_abs=self.largest)


def _scale_to_head(forward: ForwardPass, node: Node) -> float:
    """The constant that the value is multiplied by before the head's weights meet it."""
    output = node
    if isinstance(node.form, NormForm) and node.form.norm.output is not None:
        output = node.form.norm.output
    for later in forward.graph.nodes[output.index + 1 :]:
        if not is_contraction(later):
            continue
        for operand in later.parents:
            scale, origin = 1.0, operand
            while origin is not output and (step := step_back(origin)) is not None:
                origin, factor = step
                if factor is not None:
                    scale *= factor.value if isinstance(factor.value, float) else 1.0
            if origin is output:
                return scale
    return 1.0


def head_input_node(stack: StackStructure) -> Node:
    """The last add of `stack`, or the norm that its value passes last."""
    last = stack.adds[-1]
    norms = (*last.stream_norms, *stack.final_norms)
    return norms[-1].node if norms else last.add.node
