"""How much the stream of most tokens grows over a stack, apart from leaps."""

from __future__ import annotations

import math

from normdiag.evidence.architecture import Stack
from normdiag.evidence.evidence import Evidence


def typical_growth(evidence: Evidence, stack: Stack) -> float | None:
    """Return last ||y|| over first, over the product of the leaps; None where it is not measured.

    Of the mean over tokens and of the median token the smaller one: a few massive activations are
    not growth of the stream.
    """
    growth = evidence.measurements.growth.get(stack.id)
    if growth is None:
        return None
    leaps = math.prod(leap.factor for leap in growth.leaps)
    return min(growth.total, _median_token_growth(evidence, stack)) / max(leaps, 1.0)


def is_normless(stack: Stack) -> bool:
    """Return whether no branch of the stack has a norm that takes the growth away."""
    return stack.placement == "none" and not stack.exceptions


def _median_token_growth(evidence: Evidence, stack: Stack) -> float:
    """Last add over first of the median ||y||; infinite where that is not known."""
    adds = sorted(evidence.architecture.adds_of_stack(stack.id), key=lambda add: add.depth)
    ends = [evidence.measurements.stream.get(add.id) for add in (*adds[:1], *adds[-1:])]
    first, last = ends if len(ends) == 2 else (None, None)
    if first is None or last is None or not first.out_norm.median > 0:
        return math.inf
    return last.out_norm.median / first.out_norm.median
