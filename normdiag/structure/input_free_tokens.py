"""Tokens that a model makes of its parameters alone: class, distillation and register tokens.

Followed from a value back to where tokens are joined, by position along the axis of tokens.
"""

from __future__ import annotations

from normdiag.graph import Node
from normdiag.structure.aten_operations import CASTS, DROPOUT

_ELEMENTWISE = CASTS | DROPOUT | {"add", "sub", "rsub", "mul", "div", "neg"}
_MOST_STEPS = 64
"""Tokens are joined a few operations before the first norm that reads them."""


def find_input_free_positions(node: Node) -> tuple[int, ...]:
    """Positions along the last axis but one whose values no input of the model has reached.

    Empty where all positions are (a value of parameters alone has no token of the input beside
    it) and where an operation was passed of which it is not known which positions it mixes.
    """
    if len(node.shape) < 2:
        return ()
    free = _PositionWalk().find_free(node, _MOST_STEPS)
    return () if all(free) else tuple(i for i, is_free in enumerate(free) if is_free)


class _PositionWalk:
    """One walk back from a value; each node is read once at each distance."""

    def __init__(self) -> None:
        self._known: dict[tuple[Node, int], list[bool]] = {}

    def find_free(self, node: Node, steps: int) -> list[bool]:
        """Whether each position of `node`, of two axes at least, is free of inputs."""
        found = self._known.get((node, steps))
        if found is None:
            found = self._known[node, steps] = self._read_operation(node, steps)
        return found

    def _read_operation(self, node: Node, steps: int) -> list[bool]:
        count = node.shape[-2]
        if not node.origins:
            return [True] * count
        mixed = [False] * count
        if steps == 0:
            return mixed
        if node.op == "cat":
            return self._read_parts(node, steps) or mixed
        if node.op == "slice":
            return self._read_slice(node, steps) or mixed
        if node.op not in _ELEMENTWISE:
            return mixed
        free = [True] * count
        # branches before the stream
        for parent in sorted(node.parents, key=lambda each: -each.index):
            if not any(free):
                break
            if not parent.origins:
                continue
            if len(parent.shape) < 2 or parent.shape[-2] != count:
                return mixed  # one row for all positions comes of an input
            free = [a and b for a, b in zip(free, self.find_free(parent, steps - 1), strict=True)]
        return free

    def _read_parts(self, node: Node, steps: int) -> list[bool]:
        """Those of a concatenation along the axis of tokens; empty for any other."""
        if _axis_of(node, 1) != -2:
            return []
        free: list[bool] = []
        for part in node.parents:
            if part.shape != (0,):  # torch passes over it, whatever the axis
                free += self.find_free(part, steps - 1)
        return free

    def _read_slice(self, node: Node, steps: int) -> list[bool]:
        """Those of a slice; empty where its borders are no numbers."""
        (source,) = node.parents
        free = self.find_free(source, steps - 1)
        if _axis_of(node, 1) != -2:
            return free
        start, end, step = (_argument(node, i, of) for i, of in ((2, None), (3, None), (4, 1)))
        borders = (start, end, step)
        if not all(border is None or isinstance(border, int) for border in borders):
            return []
        return free[slice(*borders)]


def _axis_of(node: Node, place: int) -> int:
    axis = node.args[place] if len(node.args) > place else node.kwargs.get("dim", 0)
    return int(axis) if axis < 0 else int(axis) - len(node.shape)


def _argument(node: Node, place: int, default: int | None) -> int | None:
    value: int | None = node.args[place] if len(node.args) > place else default
    return value
