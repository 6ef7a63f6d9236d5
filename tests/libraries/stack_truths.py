"""The truth about the stacks of library models, and in which facts that which is found differs."""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from normdiag.evidence.architecture import Architecture, Stack

_HERE = Path(__file__).parent


@dataclass(frozen=True)
class StackTruth:
    """What is so of one stack by its code; an empty set where a fact has no one right value."""

    model: str
    path: str
    placement: frozenset[str]
    norm_kind: frozenset[str]
    layers: frozenset[int]
    adds: frozenset[int]
    """Residual adds per layer."""
    norms: frozenset[int]
    """Norms per layer."""
    qk_norm: bool | None
    final_norm: str
    """A module path, "none", or empty."""
    why: str = field(compare=False, default="")

    @property
    def all_adds(self) -> int:
        """Layers times adds per layer: the same for each way of counting layers."""
        return max(self.layers) * min(self.adds)


def stack_truths(library: str) -> dict[str, list[StackTruth]]:
    """The stacks of each model of one library, in the order of the forward."""
    found: dict[str, list[StackTruth]] = defaultdict(list)
    with (_HERE / f"{library}.csv").open(encoding="utf-8", newline="") as lines:
        for row in csv.DictReader(lines):
            found[row["model"]].append(_truth(row))
    return dict(found)


def _truth(row: dict[str, str]) -> StackTruth:
    def choices(name: str) -> frozenset[str]:
        return frozenset(filter(None, row[name].split("|")))

    def counts(name: str) -> frozenset[int]:
        return frozenset(map(int, choices(name)))

    return StackTruth(
        model=row["model"],
        path=row["path"],
        placement=choices("placement"),
        norm_kind=choices("norm_kind"),
        layers=counts("layers"),
        adds=counts("adds"),
        norms=counts("norms"),
        qk_norm={"yes": True, "no": False, "": None}[row["qk_norm"]],
        final_norm=row["final_norm"],
        why=row["why"],
    )


def find_differences(
    truths: Sequence[StackTruth], single_adds: int | None, found: Architecture
) -> list[str]:
    """What is found and not so, in words; `single_adds` belong to no layer (None: any number)."""
    stacks = [s for s in found.stacks if len(found.adds_of_stack(s.id)) > 1]
    alone = {s.id.partition("@")[0] for s in found.stacks} - {_path(s) for s in stacks}
    ones = [t for t in truths if t.all_adds == 1 and t.path in alone]
    stacks = [s for s in found.stacks if s in stacks or _path(s) in {t.path for t in ones}]
    if single_adds is None:
        paths = {t.path for t in truths}
        stacks = [s for s in stacks if _path(s) in paths]
    words = []
    total = sum(t.all_adds for t in truths) + (single_adds or 0)
    adds = len(found.residual_adds) + sum(len(s.single_adds) for s in found.stacks)
    if single_adds is not None and adds != total:
        words.append(f"{adds} adds, not {total}")
    if len(stacks) != len(truths):
        names = ", ".join(f"{s.id or '(root)'}: {s.layers}" for s in found.stacks)
        return [*words, f"{len(stacks)} stacks, not {len(truths)} ({names})"]
    for truth, stack in zip(truths, stacks, strict=True):
        facts = _facts(truth, stack)
        words += [f"{truth.path}: {fact} {is_}, not {right}" for fact, is_, right in facts]
    return words


def _path(stack: Stack) -> str:
    return stack.id.partition("@")[0]


def _facts(truth: StackTruth, stack: Stack) -> list[tuple[str, Any, Any]]:
    final = (stack.final_norm or "none").partition("@")[0]
    if truth.final_norm not in ("", "none") and final.startswith(f"{truth.final_norm}."):
        final = truth.final_norm  # a module that wraps the norm
    rows: list[tuple[str, Any, Any]] = [
        ("path", _path(stack), {truth.path}),
        ("placement", stack.placement, truth.placement),
        ("norm kind", stack.norm_kind or "none", truth.norm_kind),
        ("layers", stack.layers, truth.layers),
        ("adds per layer", stack.residual_adds_per_layer, truth.adds),
        ("norms per layer", stack.norms_per_layer, truth.norms),
        ("q/k norm", stack.qk_norm, set() if truth.qk_norm is None else {truth.qk_norm}),
        ("final norm", final, {truth.final_norm} - {""}),
    ]
    wrong = [(fact, is_, right) for fact, is_, right in rows if right and is_ not in right]
    return [(fact, is_, "|".join(sorted(map(str, right)))) for fact, is_, right in wrong]
