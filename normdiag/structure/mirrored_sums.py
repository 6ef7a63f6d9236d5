"""Sums beside a stream that collect the same branches and are not read by them.

ResiDual (Xie et al. 2023) adds every branch twice: to the post-norm stream that the next branch
reads, and to a raw sum that is read at the end alone. The raw sum is no stream of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from normdiag.graph import Node
from normdiag.structure.dataflow import trace_origin
from normdiag.structure.residual_adds import DetectedAdd, trace_past_bias


def find_mirrored_sums(adds: Sequence[DetectedAdd]) -> set[DetectedAdd]:
    """Find the adds of such a sum, its first one included."""
    by_branch: dict[Node, list[DetectedAdd]] = {}
    by_node = {add.node: add for add in adds}
    for add in adds:
        if len(add.branches) == 1:
            by_branch.setdefault(trace_origin(add.branches[0]).node, []).append(add)
    mirrored = {
        add for add in adds if len(add.branches) > 1 and _all_added_elsewhere(add, by_branch)
    }
    for twins in by_branch.values():
        direct = [add for add in twins if not _is_delayed(add, by_node)]
        for add in twins:
            if _is_delayed(add, by_node) and direct:
                mirrored.add(add)
                before = by_node.get(trace_origin(add.skip).node)
                if before is not None and _has_twin(before, by_branch):
                    mirrored.add(before)
    return mirrored


def _all_added_elsewhere(add: DetectedAdd, by_branch: dict[Node, list[DetectedAdd]]) -> bool:
    """Whether each of several branches that read one value is added to another value as well."""
    return all(trace_origin(branch).node in by_branch for branch in add.branches)


def _is_delayed(add: DetectedAdd, by_node: Mapping[Node, DetectedAdd]) -> bool:
    """Whether the branch reads an earlier value of a stream than the sum that it is added to."""
    value = trace_past_bias(add.skip)
    return add.continued_add is None and value in by_node and value is not add.root


def _has_twin(add: DetectedAdd, by_branch: dict[Node, list[DetectedAdd]]) -> bool:
    branch = trace_origin(add.branches[0]).node
    return any(twin is not add for twin in by_branch.get(branch, ()))
