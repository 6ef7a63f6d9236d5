"""The scales on the two operands of a residual add: alpha x + beta u."""

from __future__ import annotations

from normdiag.structure.flow import Factor, step_back
from normdiag.structure.forms import number
from normdiag.structure.residuals import AddFound
from normdiag.structure.streams import StreamFinder


def skip_factors(add: AddFound, finder: StreamFinder) -> tuple[Factor, ...]:
    """The scales on the skip after the point where the branch leaves the stream."""
    region = finder.regions[add]
    factors: list[Factor] = []
    node = add.skip
    while node is not add.root and node not in region:
        step = step_back(node)
        if step is None:
            break
        node, factor = step
        if factor is not None:
            factors.append(factor)
    return tuple(factors)


def own_factors(add: AddFound) -> list[Factor]:
    """The scale that the addition itself puts on its second operand."""
    times = number(add.node.kwargs.get("alpha", 1))
    if times is None or times == 1.0 or add.skip_index != 0:
        return []
    return [Factor(times)]
