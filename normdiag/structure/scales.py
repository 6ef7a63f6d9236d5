"""The scales on the two operands of a residual add: alpha x + beta u."""

from __future__ import annotations

from normdiag.structure.algebraic_forms import scalar_value
from normdiag.structure.dataflow import ScaleFactor, step_back
from normdiag.structure.residual_adds import DetectedAdd
from normdiag.structure.stream_chains import StreamFinder


def skip_factors(add: DetectedAdd, finder: StreamFinder) -> tuple[ScaleFactor, ...]:
    """The scales on the skip after the point where the branch leaves the stream."""
    region = finder.regions[add]
    factors: list[ScaleFactor] = []
    node = add.skip
    while node is not add.root and node not in region:
        step = step_back(node)
        if step is None:
            break
        node, factor = step
        if factor is not None:
            factors.append(factor)
    return tuple(factors)


def addition_factors(add: DetectedAdd) -> list[ScaleFactor]:
    """The scale that the addition itself puts on its second operand."""
    times = scalar_value(add.node.kwargs.get("alpha", 1))
    if times is None or times == 1.0 or add.skip_index != 0:
        return []
    return [ScaleFactor(times)]
