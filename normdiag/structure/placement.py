"""Norm placement of residual adds and stacks."""

from __future__ import annotations

from collections import Counter, defaultdict

from normdiag.evidence.architecture import Placement
from normdiag.structure.stack_structure import AddStructure, StackStructure


def classify_add(facts: AddStructure) -> Placement:
    """Classify one add; inner norms count only where there are no other norms."""
    has_input = bool(facts.input_norms)
    has_output = bool(facts.output_norms)
    if facts.add.node.op == "lerp" or facts.is_interpolation or facts.add.is_mixed:
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


def classify_stack(stack: StackStructure) -> tuple[Placement, str | None]:
    """Classify a stack; for `hybrid` and `other` also list the placements per layer."""
    per_add = [classify_add(f) for f in stack.adds]
    first = per_add[0]
    if first in ("none", "other") and len(per_add) > 1 and stack.embedding_norms:
        # the first branch reads the embedding norm's output, which serves as its input norm
        first = per_add[0] = per_add[1]
    period = sum(f.layer == 0 for f in stack.adds)
    if not stack.adds[0].add.root.is_data and len(per_add) > period:
        # the stream begins with zeros: its first norm carries no data and is not detected
        first = per_add[0] = per_add[period]
    counts = Counter(per_add)
    if len(counts) == 1:
        return first, None
    by_layer: dict[int, list[str]] = defaultdict(list)
    for facts, placement in zip(stack.adds, per_add, strict=True):
        by_layer[facts.layer].append(placement)
    patterns = Counter(tuple(p) for p in by_layer.values())
    note = "; ".join(
        f"{' + '.join(pattern)} in {n} layer{'s' if n > 1 else ''}"
        for pattern, n in patterns.most_common(4)
    )
    if set(counts) <= {"other", "none"}:
        return "other", note
    return "hybrid", note
