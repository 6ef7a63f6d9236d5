"""The reader of a stream's last value: a norm, a head, another stack or add, or the caller."""

from __future__ import annotations

from collections.abc import Collection

from normdiag.evidence.architecture import StreamReader
from normdiag.graph import Graph, Node
from normdiag.structure.aten_operations import is_contraction
from normdiag.structure.stack_structure import StackStructure


class StreamReaders:
    """Classifies the readers of stack outputs in a finished forward."""

    def __init__(self, graph: Graph, stacks: Collection[StackStructure]) -> None:
        self._children: dict[Node, list[Node]] = {}
        for node in graph:
            for parent in node.parents:
                self._children.setdefault(parent, []).append(node)
        self._adds = {f.add.node: i for i, s in enumerate(stacks) for f in s.adds}
        self._regions_of_singles = [single.region for s in stacks for single in s.single_adds]

    def classify_reader(self, stack: StackStructure, number: int) -> StreamReader:
        """Return what reads the last value of stack `number`."""
        if stack.final_norms:
            return "norm"
        if any(stack.adds[-1].add.node in region for region in self._regions_of_singles):
            return "residual-add"
        last = stack.adds[-1]
        norms = last.stream_norms
        end = (norms[-1].output or norms[-1].node) if norms else last.add.node
        is_contracted = False
        visited, pending = {end}, [end]
        while pending:
            node = pending.pop()
            for child in self._children.get(node, ()):
                if child in visited:
                    continue
                visited.add(child)
                other = self._adds.get(child)
                if other is not None and other != number:
                    return "stack"
                is_contracted = is_contracted or is_contraction(child)
                pending.append(child)
        return "head" if is_contracted else "caller"
