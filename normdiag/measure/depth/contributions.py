"""What every write of a stack is of the stream's last value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch

from normdiag.evidence.stream import Contribution
from normdiag.measure.passes.learned_values import LearnedValues
from normdiag.measure.passes.records import AddRecord
from normdiag.structure.residual_adds import DetectedAdd
from normdiag.structure.stack_structure import StackStructure

BALANCE = 0.05
"""How far the signed shares may sum up to other than 1: what low precision rounds away."""


@dataclass(frozen=True, slots=True)
class Attribution:
    """Shares in the last stream value of one stack: of the start, and of every write in order."""

    start: Contribution
    writes: tuple[Contribution, ...]


def attribute_stream(
    stack: StackStructure, records: Mapping[DetectedAdd, AddRecord], learned: LearnedValues
) -> Attribution | None:
    """x_L = a_1 .. a_L x_0 + sum over j of a_(j+1) .. a_L u_j, with a the scales of the skips.

    None where that is not so: a norm or another stack's add stands on the stream, an add did not
    run on the same tokens, or the shares do not sum to 1.
    """
    ordered = [records[add] for add in stack.chain.adds if add in records]
    inner = stack.chain.links[1:]
    if len(ordered) < len(stack.chain.adds) or not _have_same_tokens(ordered):
        return None
    is_scaled = any(link.joins for link in inner) or any(a.is_gated for a in stack.chain.adds)
    if is_scaled or any(link.norms or link.passed_adds for link in inner):
        return None
    scales = [learned.scale_vector(link.factors) for link in inner]
    width = ordered[-1].out_rows.shape[-1]
    later = torch.ones(1, dtype=torch.float64)
    parts: list[torch.Tensor] = []
    for record, scale in zip(reversed(ordered), [*reversed(scales), None], strict=True):
        parts.append(later * record.branch_rows.detach().double().cpu())
        if record is not ordered[0]:
            if scale is None or scale.numel() not in (1, width):
                return None
            later = later * scale
    parts.append(later * ordered[0].skip_rows.detach().double().cpu())
    return _compute_shares(parts[::-1], ordered[-1])


def _compute_shares(parts: Sequence[torch.Tensor], last: AddRecord) -> Attribution | None:
    """`parts`: (tokens, features) each, the start first. A first token is left out if it can be."""
    _, position = last.tokens.token_places(last.rows.cpu().numpy())
    later = torch.from_numpy(position > position.min()) if position.size else torch.empty(0)
    keep = later if bool(later.any()) else slice(None)
    end = last.out_rows.detach().double().cpu()[keep]
    signed = torch.stack([torch.linalg.vecdot(part[keep], end) for part in parts])
    energy = torch.stack([torch.linalg.vecdot(part[keep], part[keep]) for part in parts])
    signed = (signed / torch.linalg.vecdot(end, end)).mean(-1)
    energy = (energy / energy.sum(0)).mean(-1)
    if not abs(float(signed.sum()) - 1) <= BALANCE:
        return None
    start, *writes = (
        Contribution(signed=float(s), energy=float(e), tokens=len(end))
        for s, e in zip(signed, energy, strict=True)
    )
    return Attribution(start, tuple(writes))


def _have_same_tokens(records: Sequence[AddRecord]) -> bool:
    last = records[-1]
    return all(
        record.axis == last.axis
        and record.tokens.order == last.tokens.order
        and record.tokens.positions == last.tokens.positions
        and torch.equal(record.rows, last.rows)
        for record in records
    )
