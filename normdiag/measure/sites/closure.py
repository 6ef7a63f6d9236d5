"""Closure: for every layer, what came in plus what the adds wrote equals what went out.

The stream is carried on in float64 from the layer's first skip operand, through every branch as
added and every norm and scale that was found, and compared with what the next layer receives.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch

from normdiag.evidence.stream import Closure
from normdiag.measure.passes.learned_values import LearnedValues
from normdiag.measure.passes.observer import AddRecord
from normdiag.measure.sites.replay import apply_norm, relative_error
from normdiag.structure.attachments import StackStructure
from normdiag.structure.residuals import DetectedAdd
from normdiag.structure.streams import Link


def close(
    stack: StackStructure, records: Mapping[DetectedAdd, AddRecord], learned: LearnedValues
) -> Closure | None:
    """The largest relative error over layers; None where no layer can be followed."""
    worst: tuple[float, int] | None = None
    adds = stack.chain.adds
    value: torch.Tensor | None = None
    for i, add in enumerate(adds):
        record = records.get(add)
        if record is None:
            value = None
            continue
        starts_layer = i == 0 or stack.layers.of_add[i] != stack.layers.of_add[i - 1]
        link = stack.chain.links[i]
        if link.foreign:  # another row of modules wrote in between: begin again behind it
            value = None
            starts_layer = True
        if i and value is not None:
            value = _through(link, value, records[adds[i - 1]], record, learned)
        if starts_layer:
            if value is not None:
                error = relative_error(value, record.skip_rows)
                layer = stack.layers.of_add[i - 1]
                if worst is None or error > worst[0]:
                    worst = (error, layer)
            value = record.skip_rows.detach().double().cpu()
        if value is not None:
            value = value + record.branch_rows.detach().double().cpu()
    last = records.get(adds[-1])
    if value is not None and last is not None:
        error = relative_error(value, last.out_rows)
        if worst is None or error > worst[0]:
            worst = (error, stack.layers.of_add[-1])
    return None if worst is None else Closure(max_rel_error=worst[0], layer=worst[1])


def _through(
    link: Link,
    value: torch.Tensor,
    before: AddRecord,
    after: AddRecord,
    learned: LearnedValues,
) -> torch.Tensor | None:
    """From the output of one add to the skip operand of the next."""
    if _tokens(before) != _tokens(after) or before.axis != after.axis:
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


def _tokens(record: AddRecord) -> tuple[object, ...]:
    tokens = record.tokens
    return (record.rows.numel(), tokens.sequences, tokens.positions, tokens.order)
