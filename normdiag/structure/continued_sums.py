"""Sums (x + u_1) + u_2 that turn out to be two: a later add goes on from x + u_1.

While a forward runs, a second branch of one stream value and a projection of that value that only
the next branch reads look the same. Where the next residual add begins with the first sum, that sum
is a value of the stream, and the second one lies on a branch.
"""

from __future__ import annotations

from collections.abc import Iterable

from normdiag.structure.dataflow import trace_origin
from normdiag.structure.residual_adds import DetectedAdd


def part_continued_sums(adds: Iterable[DetectedAdd]) -> None:
    """Make continued adds whose sum is the stream value of another add residual adds again."""
    adds = list(adds)
    begun = {add.root: add for add in adds}
    for second in adds:
        first = second.continued_add
        if first is None or first.node not in begun:
            continue
        first.is_continued = False
        second.continued_add = None
        second.branches = second.branches[-1:]
        operands = [a for a in second.node.args if a in second.node.parents]
        second.skip = next(o for o in operands if trace_origin(o).node is first.node)
        second.skip_index = second.node.args.index(second.skip)
