"""Single adds on a stream outside its layers: a convolutional position encoding between two runs of
layers, a cross-attention ahead of them, attention pooling behind them, a sum beside the stream.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from normdiag.evidence.architecture import AddPlace
from normdiag.graph import Node
from normdiag.structure.dataflow import trace_dependency
from normdiag.structure.residual_adds import DetectedAdd
from normdiag.structure.stack_structure import AddStructure, StackStructure, build_add_structure
from normdiag.structure.stream_chains import StreamFinder, stream_width


@dataclass(frozen=True, slots=True)
class LoneAdd:
    """An add of no layer, as the split of a chain leaves it."""

    add: DetectedAdd
    path: str
    """The module or container in which its branch ran."""
    chain: int
    """Which chain it is of."""


@dataclass(frozen=True, slots=True)
class SingleAddStructure:
    """An add outside of the layers of its stack."""

    facts: AddStructure
    path: str
    place: AddPlace
    layer: int | None
    """The last layer before it."""
    region: set[Node]
    """The nodes on its branch."""


def attach_single_adds(
    lone: Sequence[LoneAdd],
    stacks: Sequence[StackStructure],
    chains: Sequence[int],
    finder: StreamFinder,
) -> list[DetectedAdd]:
    """Attach adds outside of layers to the stack of their chain (`chains`: that of each stack).

    An add of another chain is of the last stack whose stream it reads, or of the first one that
    begins with it, where it has the same width. Returns the adds that are of no stack.
    """
    rest = []
    for each in lone:
        add = each.add
        same = [s for s, c in zip(stacks, chains, strict=True) if c == each.chain]
        begun = [s for s in same if s.adds[0].add.index < add.index]
        near = [s for s in stacks if s.chain.width == stream_width(add)]
        read = [s for s in near if trace_dependency(add.node, s.adds[0].add.node)[0]]
        fed = [s for s in near if trace_dependency(s.chain.links[0].source, add.node)[0]]
        stack = next(iter([*begun[-1:], *same[:1], *read[-1:], *fed[:1]]), None)
        if stack is None:
            rest.append(add)
            continue
        before = [f.layer for f in stack.adds if f.add.index < add.index]
        place: AddPlace = "before" if not before else "between"
        if stack.adds[-1].add.index < add.index:
            place = "behind"
        stack.single_adds.append(
            SingleAddStructure(
                build_add_structure(add, 0, finder),
                each.path,
                place,
                max(before, default=None),
                finder.regions[add],
            )
        )
    return rest
