"""What the head, or the caller of a model without one, receives."""

from __future__ import annotations

import torch

from normdiag.evidence.stream import HeadInput
from normdiag.graph import Node
from normdiag.measure.forward import Pass
from normdiag.measure.rows import to_rows
from normdiag.structure.attachments import StackFacts


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
        squares += float(kept.square().sum())
        count += kept.numel()
        largest = max(largest, float(kept.abs().max()) if kept.numel() else 0.0)
    if not count:
        return None
    return HeadInput(rms=float(torch.tensor(squares / count).double().sqrt()), max_abs=largest)


def _end(stack: StackFacts) -> Node:
    last = stack.adds[-1]
    norms = (*last.stream_norms, *stack.final_norms)
    return norms[-1].node if norms else last.add.node
