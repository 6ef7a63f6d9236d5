"""The repeated layers of one stack: which adds and which modules each run of the layer has."""

from __future__ import annotations

from dataclasses import dataclass

from normdiag.graph import Frame, Node
from normdiag.structure.branch_scopes import Scope


@dataclass(frozen=True, slots=True)
class LayerRun:
    """The adds of one run of the repeated layer, by their place in the chain."""

    adds: tuple[int, ...]
    scopes: tuple[Scope, ...] = ()
    """The modules or containers that make up the layer; none where adds of one module do."""


@dataclass(frozen=True, slots=True)
class LayerAssignment:
    """The repeated layers of one stack."""

    id: str
    runs: tuple[LayerRun, ...]
    layer_of_add: tuple[int, ...]
    """The layer run of each add."""
    module_paths: tuple[str, ...]
    """The module or container that names each add."""
    starts: tuple[int, ...]
    """Index of the node behind which each layer run begins."""

    @property
    def count(self) -> int:
        return len(self.runs)

    @property
    def frames(self) -> tuple[Frame | None, ...]:
        """The call frame of each layer run; None where a layer is not one module."""
        return tuple(r.scopes[0].frame if len(r.scopes) == 1 else None for r in self.runs)

    @property
    def has_scopes(self) -> bool:
        """Whether the layers are modules or containers."""
        return bool(self.runs[0].scopes)

    def find_starts(self) -> list[int]:
        """The places of the first adds of all layers but the first."""
        of_add = self.layer_of_add
        return [i for i in range(1, len(of_add)) if of_add[i] != of_add[i - 1]]

    def find_layer(self, node: Node) -> int | None:
        """Return the layer run that computed `node`, if any."""
        around = frozenset(node.frame.enclosing_frames())
        found = None
        for i, run in enumerate(self.runs):
            for scope in run.scopes:
                if scope.contains(node, around):
                    if scope.frame is not None:
                        return i
                    if found is None or self.starts[i] < node.index:  # visited more than once
                        found = i
        return found
