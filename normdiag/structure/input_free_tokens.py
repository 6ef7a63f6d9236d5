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
    free = _free_positions(node, node.shape[-2], _MOST_STEPS)
    return () if all(free) else tuple(i for i, is_free in enumerate(free) if is_free)


def _free_positions(node: Node, count: int, steps: int) -> list[bool]:
    """Whether each of `count` positions of `node` is free of inputs."""
    if not node.origins:
        return [True] * count
    mixed = [False] * count
    if steps == 0 or len(node.shape) < 2 or node.shape[-2] != count:
        return mixed  # one row for all positions comes of an input
    if node.op == "cat":
        return _joined_positions(node, steps) or mixed
    if node.op == "slice":
        return _sliced_positions(node, steps) or mixed
    if node.op not in _ELEMENTWISE:
        return mixed
    free = [True] * count
    for parent in sorted(node.parents, key=lambda each: -each.index):  # branches before the stream
        if not any(free):
            break
        of_parent = _free_positions(parent, count, steps - 1)
        free = [a and b for a, b in zip(free, of_parent, strict=True)]
    return free


def _joined_positions(node: Node, steps: int) -> list[bool]:
    """Those of a concatenation along the axis of tokens; empty for any other."""
    if _axis_of(node, 1) != -2:
        return []
    free: list[bool] = []
    for part in node.parents:
        free += _free_positions(part, part.shape[-2], steps - 1)
    return free


def _sliced_positions(node: Node, steps: int) -> list[bool]:
    """Those of a slice; empty where its borders are no numbers."""
    (source,) = node.parents
    count = source.shape[-2]
    free = _free_positions(source, count, steps - 1)
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
