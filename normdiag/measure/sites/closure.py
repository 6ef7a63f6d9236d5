"""Closure: the output of every layer against its input plus the sum of its branches.

The stream is carried on in float64 from the layer's first skip operand, through every branch as
added and every norm and scale on it, and compared with what the next layer receives.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

import torch

from normdiag.evidence.stream import Closure
from normdiag.measure.blocks.followed_rows import find_row_path, follow_rows, keep_rows
from normdiag.measure.passes.learned_values import LearnedValues
from normdiag.measure.passes.records import AddRecord
from normdiag.measure.sites.replay import apply_norm, relative_error
from normdiag.structure.residual_adds import DetectedAdd
from normdiag.structure.stack_structure import StackStructure
from normdiag.structure.stream_links import StreamLink


@dataclass(frozen=True, slots=True)
class _Carried:
    """The stream at tokens of one add."""

    value: torch.Tensor
    """(tokens, width) in float64."""
    at: torch.Tensor
    """The place of each token among the sampled ones of the add."""

    @classmethod
    def begin(cls, record: AddRecord) -> _Carried:
        rows = record.skip_rows.detach().double().cpu()
        return cls(rows, torch.arange(len(rows)))

    def measure_error(self, rows: torch.Tensor) -> float:
        """Relative to `rows`, those that were observed at the sampled tokens."""
        return relative_error(self.value, rows[self.at.to(rows.device)])

    def add_branch(self, record: AddRecord) -> _Carried:
        branch = record.branch_rows.detach().cpu()[self.at].double()
        return _Carried(self.value + branch, self.at)


def measure_closure(
    stack: StackStructure, records: Mapping[DetectedAdd, AddRecord], learned: LearnedValues
) -> Closure | None:
    """The largest relative error over layers, at the sampled tokens of one pass.

    None where no layer can be followed.
    """
    errors: list[tuple[float, int]] = []
    adds, layer_of_add = stack.chain.adds, stack.layers.layer_of_add
    carried: _Carried | None = None
    for i, add in enumerate(adds):
        record = records.get(add)
        if record is None:
            carried = None
            continue
        starts_layer = i == 0 or layer_of_add[i] != layer_of_add[i - 1]
        link = stack.chain.links[i]
        if link.joins or link.passed_adds or add.is_gated or add.is_mixed:
            # something else came in between: compare ahead of it and begin again behind it
            if carried is not None:
                out = records[adds[i - 1]].out_rows
                errors.append((carried.measure_error(out), layer_of_add[i - 1]))
            carried, starts_layer = None, True
        elif carried is not None:
            carried = _follow_link(link, carried, records[adds[i - 1]], record, learned)
        if starts_layer:
            if carried is not None:
                errors.append((carried.measure_error(record.skip_rows), layer_of_add[i - 1]))
            carried = _Carried.begin(record)
        if carried is not None:
            carried = carried.add_branch(record)
    last = records.get(adds[-1])
    if carried is not None and last is not None:
        errors.append((carried.measure_error(last.out_rows), layer_of_add[-1]))
    if not errors:
        return None
    error, layer = max(errors, key=lambda pair: pair[0])
    return Closure(max_rel_error=error, layer=layer)


def _follow_link(
    link: StreamLink,
    carried: _Carried,
    before: AddRecord,
    after: AddRecord,
    learned: LearnedValues,
) -> _Carried | None:
    """From the output of one add to the skip operand of the next."""
    moved = _follow_tokens(carried, before, after)
    if moved is None:
        return None
    value = moved.value
    for norm in reversed(link.norms):
        replayed = apply_norm(norm, value, learned)
        if replayed is None:
            return None
        value = replayed
    scale = learned.scale_vector(link.factors)
    if scale is None or scale.numel() not in (1, value.shape[-1]):
        return None
    return _Carried(value * scale, moved.at)


_MOST_ELEMENTS = 2**25
"""Of a value whose rows are followed: each takes eight bytes."""


def _follow_tokens(carried: _Carried, before: AddRecord, after: AddRecord) -> _Carried | None:
    """The tokens that are sampled at the next add too, in its order; None where unknown.

    Views on the way may put the tokens in another order.
    """
    start = before.add.node
    path = find_row_path(after.add.skip, start, after.add)
    if path is None or keep_rows(path, start):
        is_same = _token_key(before) == _token_key(after) and before.axis == after.axis
        return carried if is_same else None
    if prod(start.shape) > _MOST_ELEMENTS:
        return None
    moved = follow_rows(path, start, before.axis)
    if moved is None:
        return None
    moved = moved.movedim(after.axis, -1).flatten(0, -2)
    if not bool((moved == moved[:, :1]).all()):
        return None  # the features change places
    same = moved[after.rows.cpu(), 0][:, None] == before.rows.cpu()[carried.at]
    at, of = same.nonzero(as_tuple=True)
    return _Carried(carried.value[of], at) if len(at) else None


def _token_key(record: AddRecord) -> tuple[object, ...]:
    tokens = record.tokens
    return (record.rows.numel(), tokens.sequences, tokens.positions, tokens.order)
