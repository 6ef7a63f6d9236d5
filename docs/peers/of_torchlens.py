"""torchlens: the residual spine by data flow, walked back from the head."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
import torchlens
import torchlens.mechinterp as kit

from peers.cases import Case
from peers.said import Said, among, count, error

PACKAGE = "torchlens"


def ask(case: Case) -> Said:
    """The captured states of the residual stream, and the writers that make the last of them.

    Where the last state is not found from the head, the remedy that the refusal names is
    followed: the last sum of every stack is given as a target.
    """
    model = case.build()
    truth = case.true_sums(model)
    trace = torchlens.trace(model, [], case.inputs())
    try:
        return _told(trace, ["final"], truth)
    except kit.MechInterpError as refused:
        why = _short(refused)
    try:
        told = _told(trace, [_label(trace, last) for last in _last_sums(case, truth)], truth)
    except kit.MechInterpError as again:
        return Said(refusal=f"{why} With the last sum as `target=`: {_short(again)}")
    followed = "The numbers above are with the last sum of each stack as `target=`."
    return replace(told, refusal=f"{why} {followed}")


def _last_sums(case: Case, truth: Mapping[str, list[torch.Tensor]]) -> list[torch.Tensor]:
    return [
        [sums for layer, sums in truth.items() if layer.startswith(stack)][-1][-1]
        for stack in case.sums
    ]


def _label(trace: Any, wanted: torch.Tensor) -> str:
    return next(op.label for op in trace.ops if among(wanted, [op.out]))


def _told(trace: Any, targets: list[str], truth: Mapping[str, list[torch.Tensor]]) -> Said:
    values: list[torch.Tensor] = []
    names: list[str] = []
    errors: list[float] = []
    for target in targets:
        states = kit.residual_accumulation(trace, target).rows
        writers = kit.residual_decomposition(trace, target).rows
        values += [row.value for row in states]
        names += [n for n in (row.coordinate.label for row in states) if ".1" in _depth(n)]
        errors.append(error(sum(row.value for row in writers), states[-1].value))
    found, extra = count(truth, values)
    return Said(
        found=found, extra=extra, identity=max(errors), names=", ".join(dict.fromkeys(names))
    )


def _depth(name: str) -> str:
    """A module path up to its first index, which is the layer's."""
    head = re.match(r".*?\.\d+", name)
    return head[0] if head else ""


def _short(refused: Exception) -> str:
    return str(refused).partition(" Remedy:")[0]
