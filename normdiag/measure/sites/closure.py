"""Closure: the output of every layer against its input plus the sum of its branches.

The stream is carried on in float64 from the layer's first skip operand, through every branch as
added and every norm and scale on it, and compared with what the next layer receives.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch

from normdiag.evidence.stream import Closure
from normdiag.measure.passes.learned_values import LearnedValues
from normdiag.measure.passes.records import AddRecord
from normdiag.measure.sites.replay import apply_norm, relative_error
from normdiag.structure.residual_adds import DetectedAdd
from normdiag.structure.stack_structure import StackStructure
from normdiag.structure.stream_links import StreamLink


def measure_closure(
    stack: StackStructure, records: Mapping[DetectedAdd, AddRecord], learned: LearnedValues
) -> Closure | None:
    """The largest relative error over layers, at the sampled tokens of one pass.

    None where no layer can be followed.
    """
    largest: tuple[float, int] | None = None
    adds = stack.chain.adds
    value: torch.Tensor | None = None
    for i, add in enumerate(adds):
        record = records.get(add)
        if record is None:
            value = None
            continue
        starts_layer = i == 0 or stack.layers.layer_of_add[i] != stack.layers.layer_of_add[i - 1]
        link = stack.chain.links[i]
        if link.joins or link.passed_adds or add.is_gated or add.is_mixed:
            # something else came in between: compare ahead of it and begin again behind it
            if i and value is not None:
                error = relative_error(value, records[adds[i - 1]].out_rows)
                if largest is None or error > largest[0]:
                    largest = error, stack.layers.layer_of_add[i - 1]
            value, starts_layer = None, True
        elif i and value is not None:
            value = _follow_link(link, value, records[adds[i - 1]], record, learned)
        if starts_layer:
            if value is not None:
                error = relative_error(value, record.skip_rows)
                layer = stack.layers.layer_of_add[i - 1]
                if largest is None or error > largest[0]:
                    largest = error, layer
            value = record.skip_rows.detach().double().cpu()
        if value is not None:
            value = value + record.branch_rows.detach().double().cpu()
    last = records.get(adds[-1])
    if value is not None and last is not None:
        error = relative_error(value, last.out_rows)
        if largest is None or error > largest[0]:
            largest = error, stack.layers.layer_of_add[-1]
    return None if largest is None else Closure(max_rel_error=largest[0], layer=largest[1])


def _follow_link(
    link: StreamLink,
    value: torch.Tensor,
    before: AddRecord,
    after: AddRecord,
    learned: LearnedValues,
) -> torch.Tensor | None:
    """From the output of one add to the skip operand of the next."""
    if _token_key(before) != _token_key(after) or before.axis != after.axis:
        return None
    for norm in reversed(link.norms):
        replayed = apply_norm(norm, value, learned)
        if replayed is None:
            return None
        value = replayed
    scale = learned.scale_vector(link.factors)
    if scale is None or scale.numel() not in (1, value.shape[-1]):
        return None
    return value * scale


def _token_key(record: AddRecord) -> tuple[object, ...]:
    tokens = record.tokens
    return (record.rows.numel(), tokens.sequences, tokens.positions, tokens.order)
