"""The placement of an add, of a layer, of a stack, from the facts of its adds."""

from __future__ import annotations

from collections import Counter, defaultdict

from normdiag.evidence.architecture import Placement
from normdiag.structure.stack_structure import AddStructure, StackStructure


def classify_add(facts: AddStructure) -> Placement:
    """One add. Inner norms do not place anything, except that nothing else does."""
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
    """The whole stack, and what was seen where that is `hybrid` or `other`."""
    per_add = [classify_add(f) for f in stack.adds]
    first = per_add[0]
    if first in ("none", "other") and len(per_add) > 1 and stack.embedding_norms:
        # the first branch reads the embedding norm's output: its norm is there already
        first = per_add[0] = per_add[1]
    period = sum(f.layer == 0 for f in stack.adds)
    if not stack.adds[0].add.root.is_data and len(per_add) > period:
        # the stream begins blank: what is normed first carries no data, and is not seen
        first = per_add[0] = per_add[period]
    counts = Counter(per_add)
    if len(counts) == 1:
        return first, None
    by_layer: dict[int, list[str]] = defaultdict(list)
    for facts, placement in zip(stack.adds, per_add, strict=True):
        by_layer[facts.layer].append(placement)
    patterns = Counter(tuple(p) for p in by_layer.values())
    seen = "; ".join(
        f"{' + '.join(pattern)} in {n} layer{'s' if n > 1 else ''}"
        for pattern, n in patterns.most_common(4)
    )
    if set(counts) <= {"other", "none"}:
        return "other", seen
    return "hybrid", seen
