"""torchlens: the residual spine by data flow, walked back from the head."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
import torchlens
import torchlens.mechinterp as kit

from docs.generators.peers.answer import ToolAnswer, count_sums, is_among, relative_error
from docs.generators.peers.models import Case

PACKAGE = "torchlens"


def ask_tool(case: Case) -> ToolAnswer:
    """The captured states of the residual stream, and the writers that make the last of them.

    Where the last state is not found from the head, the remedy that the refusal names is
    followed: the last sum of every stack is given as a target.
    """
    model = case.build()
    truth = case.true_sums(model)
    trace = torchlens.trace(model, [], case.inputs())
    try:
        return _walk_back(trace, ["final"], truth)
    except kit.MechInterpError as refused:
        why = _refusal_reason(refused)
    try:
        answer = _walk_back(
            trace, [_operation_label(trace, last) for last in _last_sums(case, truth)], truth
        )
    except kit.MechInterpError as again:
        return ToolAnswer(refusal=f"{why} With the last sum as `target=`: {_refusal_reason(again)}")
    followed = "The numbers above are with the last sum of each stack as `target=`."
    return replace(answer, refusal=f"{why} {followed}")


def _last_sums(case: Case, truth: Mapping[str, list[torch.Tensor]]) -> list[torch.Tensor]:
    return [
        [sums for layer, sums in truth.items() if layer.startswith(stack)][-1][-1]
        for stack in case.sums
    ]


def _operation_label(trace: Any, wanted: torch.Tensor) -> str:
    return next(op.label for op in trace.ops if is_among(wanted, [op.out]))


def _walk_back(
    trace: Any, targets: list[str], truth: Mapping[str, list[torch.Tensor]]
) -> ToolAnswer:
    values: list[torch.Tensor] = []
    names: list[str] = []
    errors: list[float] = []
    for target in targets:
        states = kit.residual_accumulation(trace, target).rows
        writers = kit.residual_decomposition(trace, target).rows
        values += [row.value for row in states]
        names += [n for n in (row.coordinate.label for row in states) if ".1" in _layer_path(n)]
        errors.append(relative_error(sum(row.value for row in writers), states[-1].value))
    true_sums, extra = count_sums(truth, values)
    return ToolAnswer(
        true_sums=true_sums,
        extra=extra,
        identity=max(errors),
        names=", ".join(dict.fromkeys(names)),
    )


def _layer_path(name: str) -> str:
    """A module path up to its first index, which is the layer's."""
    head = re.match(r".*?\.\d+", name)
    return head[0] if head else ""


def _refusal_reason(refused: Exception) -> str:
    return str(refused).partition(" Remedy:")[0]
