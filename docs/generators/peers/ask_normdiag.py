"""normdiag: the adds, the norms around them and the placement, from the data flow."""

from __future__ import annotations

import math
from typing import Any

import normdiag
from docs.generators.peers.answer import ToolAnswer
from docs.generators.peers.models import Case

PACKAGE = "normdiag"


def ask_tool(case: Case) -> ToolAnswer:
    """The report's adds, held against the true sums by their numbers."""
    model = case.build()
    truth = [value for sums in case.true_sums(model).values() for value in sums]
    report = normdiag.inspect(model, inputs=case.inputs(), measure=("stream",), all_tokens=True)
    measured = list(report.measurements.stream.values())
    stacks = report.architecture.stacks
    per_layer = [f"{s.norms_per_layer} {s.norm_kind} a layer" for s in stacks]
    ends = [f"final {s.final_norm}" for s in stacks if s.final_norm]
    adds = list(report.architecture.residual_adds)
    return ToolAnswer(
        true_sums=sum(any(_is_same_sum(m, value) for m in measured) for value in truth),
        extra=sum(not any(_is_same_sum(m, value) for value in truth) for m in measured),
        identity=max(c.max_rel_error for c in report.measurements.closure.values()),
        norms="; ".join([*per_layer, *ends]),
        placement=", ".join(s.placement for s in stacks),
        names=", ".join(a.id for a in adds if a.layer == 1),
    )


def _is_same_sum(measured: Any, value: Any) -> bool:
    length = float(value.double().norm(dim=-1).mean())
    return math.isclose(measured.out_norm.mean, length, rel_tol=1e-5) and math.isclose(
        measured.max_abs, float(value.abs().max()), rel_tol=1e-5
    )
