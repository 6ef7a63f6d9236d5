"""What the head, or the caller of a model without one, receives."""

from __future__ import annotations

import torch

from normdiag.evidence.stream import HeadInput
from normdiag.graph import Node
from normdiag.measure.forward import Pass
from normdiag.measure.rows import to_rows
from normdiag.structure.attachments import StackFacts
from normdiag.structure.flow import step_back
from normdiag.structure.forms import Normal
from normdiag.structure.operations import is_contraction


def head_input(passes: list[Pass]) -> HeadInput | None:
    """The last stack's last value after its last norms, over tokens that are not padding."""
    squares, count, largest = 0.0, 0, 0.0
    for done in passes:
        if not done.stacks:
            return None
        end = _end(max(done.stacks, key=lambda s: s.adds[-1].add.index))
        value = done.sites.recent.get(end)
        if value is None:
            return None
        record = done.sites.adds.get(max(done.sites.adds, key=lambda a: a.index))
        axis = record.axis if record is not None else -1
        rows = to_rows(value, (axis,))
        lead = tuple(s for i, s in enumerate(value.shape) if i != value.dim() + axis)
        valid = done.layouts.of(end).tokens(lead).valid
        kept = (rows if valid is None else rows[valid]).double()
        scale = abs(_scale_to_head(done, end))
        squares += float(kept.square().sum()) * scale**2
        count += kept.numel()
        largest = max(largest, float(kept.abs().max()) * scale if kept.numel() else 0.0)
    if not count:
        return None
    return HeadInput(rms=float(torch.tensor(squares / count).double().sqrt()), max_abs=largest)


def _scale_to_head(done: Pass, end: Node) -> float:
    """The constant that the value is multiplied by before the head's weights meet it."""
    last = end
    if isinstance(end.form, Normal) and end.form.norm.output is not None:
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


def _end(stack: StackFacts) -> Node:
    last = stack.adds[-1]
    norms = (*last.stream_norms, *stack.final_norms)
    return norms[-1].node if norms else last.add.node
