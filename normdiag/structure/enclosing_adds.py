"""Residual adds on the branch of another add, as a residual inside an attention branch is.

An add of another stream that the branch reads does not lie on it: that stream passes by, as the two
of a reversible block or of a two-way decoder do. A sum beside the stream that adds the same
branches holds none of the stream's adds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise

from normdiag.graph import Node
from normdiag.structure.dataflow import trace_origin
from normdiag.structure.residual_adds import DetectedAdd


def find_enclosing_adds(
    regions: Mapping[DetectedAdd, set[Node]], sources: Mapping[DetectedAdd, Node]
) -> dict[DetectedAdd, DetectedAdd | None]:
    """Find the innermost add on whose branch each add lies.

    `regions`: the nodes on the branch of each add, adds in topological order; `sources`: the result
    of the add, or the start of the stream, that each skip copies.
    """
    by_node = {add.node: add for add in regions}
    written = {add: {trace_origin(b).node for b in add.branches} for add in regions}
    successors: dict[Node, list[DetectedAdd]] = {}
    for add, source in sources.items():
        successors.setdefault(source, []).append(add)
    inner: dict[DetectedAdd, DetectedAdd | None] = {}
    around: dict[DetectedAdd, set[DetectedAdd]] = {}
    for add in regions:
        before = by_node.get(sources[add])
        around[add] = {
            holder
            for holder, region in regions.items()
            if holder is not add
            and add.node in region
            and written[add].isdisjoint(written[holder])
            and (before is None or sources[holder] is before.node or holder in around[before])
            and not _leads_past(add, region, successors)
        }
        inner[add] = min(around[add], key=lambda h: len(regions[h]), default=None)
    return inner


def _leads_past(
    add: DetectedAdd, region: set[Node], successors: Mapping[Node, list[DetectedAdd]]
) -> bool:
    """Whether the stream of `add` goes on to an add outside the branch."""
    pending = [add]
    while pending:
        for later in successors.get(pending.pop().node, ()):
            if later.node not in region:
                return True
            pending.append(later)
    return False


def drop_inner_adds_by_line(
    adds: Sequence[DetectedAdd], enclosing: Mapping[DetectedAdd, DetectedAdd | None]
) -> list[DetectedAdd]:
    """Drop leading adds whose source line otherwise runs on a branch of these adds.

    Compares source lines: a first layer that starts the stream with its branch output has no
    residual add of its own, so that its inner adds would lead the chain. `enclosing`: the innermost
    add on whose branch each add lies.
    """
    adds_of_chain = set(adds)
    lines = Counter(a.node.line for a in adds)
    inner = {a.node.line for a, holder in enclosing.items() if holder in adds_of_chain}
    inner -= {None} | {line for line, count in lines.items() if count > 1}
    start = 0
    for add, after in pairwise(adds):
        if (
            add.node.line not in inner
            or after.node.frame not in add.node.frame.enclosing_frames()[:-1]
        ):
            break
        start += 1
    return list(adds[start:])
