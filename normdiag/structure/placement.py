"""Norm placement of residual adds and stacks."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field

from normdiag.evidence.architecture import Placement
from normdiag.structure.stack_structure import AddStructure, StackStructure


def classify_add(facts: AddStructure) -> Placement:
    """Classify one add; inner norms count only where there are no other norms."""
    has_input = bool(facts.input_norms)
    has_output = bool(facts.output_norms)
    if facts.is_interpolation or facts.add.is_mixed or facts.add.is_gated or facts.lanes:
        return "other"
    if facts.skip_norms:
        return "normed-skip"
    if facts.stream_norms:
        if has_input or has_output:
            return "hybrid"
        return "deepnorm" if facts.skip_factors else "post"
    if facts.is_parallel and has_input:
        return "parallel-pre"
    if has_input:
        return "sandwich" if has_output else "pre"
    if has_output:
        return "branch-output"
    return "other" if facts.inner_norms else "none"


@dataclass(frozen=True, slots=True)
class StackPlacement:
    """The placement of a stack, and of the adds that differ from it."""

    placement: Placement
    note: str | None = None
    exceptions: dict[int, Placement] = field(default_factory=dict)
    """Placement by the number of the add in the stack, where most adds have another one."""


MAJORITY = 0.75
"""Share of the adds that gives a stack its placement; with a smaller one it is a hybrid."""


def classify_stack(stack: StackStructure) -> StackPlacement:
    """Classify a stack by most of its adds; for `hybrid` and `other` list the layers' patterns."""
    per_add = _classify_adds(stack)
    counts = Counter(per_add)
    usual, many = counts.most_common(1)[0]
    if many >= MAJORITY * len(per_add):
        exceptions = {i: each for i, each in enumerate(per_add) if each != usual}
        return StackPlacement(usual, None, exceptions)
    by_layer: dict[int, list[str]] = defaultdict(list)
    for facts, placement in zip(stack.adds, per_add, strict=True):
        by_layer[facts.layer].append(placement)
    patterns = Counter(tuple(p) for p in by_layer.values())
    note = "; ".join(
        f"{' + '.join(pattern)} in {n} layer{'s' if n > 1 else ''}"
        for pattern, n in patterns.most_common(4)
    )
    return StackPlacement("other" if set(counts) <= {"other", "none"} else "hybrid", note)


def _classify_adds(stack: StackStructure) -> list[Placement]:
    """The placement of each add, the first one as the others where the stream's start hides it."""
    per_add = [classify_add(f) for f in stack.adds]
    if per_add[0] in ("none", "other") and len(per_add) > 1 and stack.embedding_norms:
        # the first branch reads the embedding norm's output, which serves as its input norm
        per_add[0] = per_add[1]
    period = sum(f.layer == 0 for f in stack.adds)
    if not stack.adds[0].add.root.is_data and len(per_add) > period:
        # the stream begins with zeros: its first norm carries no data and is not detected
        per_add[0] = per_add[period]
    return per_add
