"""Stable ids: the path of a norm module, or a number within the module that computes the norm."""

from __future__ import annotations

from collections import Counter

from normdiag.graph import Frame, Graph
from normdiag.structure.algebraic_forms import DetectedNorm
from normdiag.structure.aten_operations import is_contraction
from normdiag.structure.residual_adds import DetectedAdd
from normdiag.structure.stack_structure import StackStructure


def norm_ids(graph: Graph, norms: list[DetectedNorm]) -> dict[DetectedNorm, str]:
    """Return an id per call of each norm: "path", "path@1" for the second, or "path/norm#k"."""
    per_frame = Counter(n.node.frame for n in norms)
    busy = _composite_frames(graph)
    numbered: Counter[str] = Counter()
    ids = {}
    for norm in norms:
        frame = norm.node.frame
        if per_frame[frame] == 1 and frame not in busy and frame.path:
            ids[norm] = frame.id
        else:
            ids[norm] = f"{frame.path}/norm#{numbered[frame.path]}"
            numbered[frame.path] += 1
    return ids


def _composite_frames(graph: Graph) -> set[Frame]:
    """Frames that do more than normalise: they contract or call other modules."""
    busy: set[Frame] = set()
    for node in graph:
        if node.frame.parent is not None:
            busy.add(node.frame.parent)
        if is_contraction(node):
            busy.add(node.frame)
    return busy


def add_ids(stacks: list[StackStructure]) -> dict[DetectedAdd, str]:
    """Return the id "<module>/add#k" of each add, k in the order of the forward.

    Adds outside of layers are among them.
    """
    adds = [
        (facts.add, path)
        for stack in stacks
        for facts, path in zip(stack.adds, stack.layers.module_paths, strict=True)
    ] + [(single.facts.add, single.path) for stack in stacks for single in stack.single_adds]
    numbered: Counter[str] = Counter()
    ids = {}
    for add, path in sorted(adds, key=lambda pair: pair[0].index):
        ids[add] = f"{path}/add#{numbered[path]}"
        numbered[path] += 1
    return ids


def stack_ids(stacks: list[StackStructure]) -> list[str]:
    """Return the module path of each stack's layers, with "@n" where stacks share a path."""
    uses: Counter[str] = Counter()
    ids = []
    for stack in stacks:
        path = stack.layers.id
        ids.append(path if not uses[path] else f"{path}@{uses[path]}")
        uses[path] += 1
    return ids
