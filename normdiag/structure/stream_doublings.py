"""Additions of a stream to itself, x + x, on the skip path between two residual adds."""

from __future__ import annotations

from collections.abc import Sequence

from normdiag.graph import Node
from normdiag.structure.dataflow import step_back
from normdiag.structure.residual_adds import DetectedAdd, is_doubling
from normdiag.structure.stack_structure import StackStructure


def find_doublings(stacks: Sequence[StackStructure]) -> dict[Node, int]:
    """Return each addition of the stream to itself, in the order of the forward -> its stack."""
    found = {
        node: number
        for number, stack in enumerate(stacks)
        for add in stack.chain.adds
        for node in doublings_on_skip(add)
    }
    return dict(sorted(found.items(), key=lambda item: item[0].index))


def doublings_on_skip(add: DetectedAdd) -> list[Node]:
    """Return those between the add and the one before it, the nearest first."""
    node, doublings = add.skip, []
    while (step := step_back(node)) is not None:
        if is_doubling(node):
            doublings.append(node)
        node = step[0]
    return doublings
