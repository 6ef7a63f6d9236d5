"""Several streams told apart from many positions that one pooled update is added to.

Both look the same within a block: a mean over an axis is read, and the update is added to all of
that axis. Streams begin as copies of one value, positions do not.
"""

from __future__ import annotations

from normdiag.graph import Node
from normdiag.structure.dataflow import nodes_between, step_back, trace_origin
from normdiag.structure.residual_adds import DetectedAdd
from normdiag.structure.stream_chains import StreamFinder
from normdiag.structure.stream_lanes import StreamLanes, find_lanes, spread_operand
from normdiag.structure.token_pooling import pools_tokens


def find_streams(add: DetectedAdd, finder: StreamFinder) -> StreamLanes | None:
    """Return the streams that `add` writes to; None where there is one."""
    lanes = find_lanes(add.node, add.branches[-1])
    if lanes is None or (_is_pooled(add) and not _begins_with_copies(add, finder)):
        return None
    return lanes


def _is_pooled(add: DetectedAdd) -> bool:
    """Whether the branch reads the mean or an extreme of many positions."""
    between = nodes_between(add.root, add.branches[-1])
    return any(pools_tokens(n) and trace_origin(n.parents[0]).node is add.root for n in between)


def _begins_with_copies(add: DetectedAdd, finder: StreamFinder) -> bool:
    """Whether the stream in front of its first add is one value, copied."""
    while (before := finder.by_node.get(finder.trace_link(add.skip).source)) is not None:
        add = before
    node: Node = add.skip
    while spread_operand(node) is None:
        step = step_back(node)
        if step is None:
            return False
        node = step[0]
    return True
