"""Data-flow walks: the origin of a value, dependencies, and the nodes between two values."""

from __future__ import annotations

from dataclasses import dataclass

from normdiag.graph import Node
from normdiag.structure.algebraic_forms import NormForm, scalar_value
from normdiag.structure.aten_operations import (
    CASTS,
    DROPOUT,
    MASKING,
    MIXING,
    VIEWS,
    is_contraction,
    part_axis,
)
from normdiag.structure.joined_parts import find_joined_operand
from normdiag.structure.overwritten_parts import find_continued_parts


@dataclass(frozen=True, slots=True)
class ScaleFactor:
    """One scale on a path: a number, or a node that holds a learned value."""

    value: float | Node


@dataclass(frozen=True, slots=True)
class TracedOrigin:
    """The value that a node copies, up to views, casts, dropout, masks and the scales passed."""

    node: Node
    factors: tuple[ScaleFactor, ...] = ()


def step_back(node: Node) -> tuple[Node, ScaleFactor | None] | None:
    """Step back through an operation that changes only layout, precision or scale."""
    op = node.op
    if not node.parents:
        return None
    first = node.parents[0]
    if op in CASTS or op in DROPOUT:
        return first, None
    if op in VIEWS:
        return None if part_axis(node) == -1 else (find_joined_operand(node) or first, None)
    if op == "write" or op in MASKING:
        return None if find_continued_parts(node) is not None else _step_past_overwriting(node)
    if op == "copy":
        return node.parents[-1], None
    if op in ("mul", "multiply", "div", "divide"):
        return _step_past_scale(node)
    if op == "cat":
        return _step_past_appended_tokens(node)
    if op == "add" and scalar_value(node.args[1]) == 0.0:  # what sum() starts from
        return first, None
    if op == "add" and node.args[0] is node.args[1]:  # x + x
        return first, ScaleFactor(2.0)
    if op == "sub":
        return _step_past_filter(node)
    return None


def _step_past_filter(node: Node) -> tuple[Node, None] | None:
    """Step past x minus a fixed filter of x (a moving average), which has no weights."""
    x, filtered = node.args[0], node.args[1]
    if not (isinstance(x, Node) and isinstance(filtered, Node)):
        return None
    at = filtered
    while at.op in MIXING or at.op in VIEWS or at.op in CASTS or at.op == "cat":
        if at is x:
            break
        at = at.parents[0]
    return (x, None) if at is x or (at.parents and x in at.parents) else None


def _step_past_overwriting(node: Node) -> tuple[Node, None] | None:
    if node.op == "write":  # a part of it was written
        return node.parents[0], None
    floats = [p for p in node.parents if p.is_data and p.is_floating and p.shape == node.shape]
    return (floats[0], None) if len(floats) == 1 else None


def _step_past_scale(node: Node) -> tuple[Node, ScaleFactor | None] | None:
    a, b = node.args[0], node.args[1]
    if isinstance(node.form, NormForm) and node.form.norm.node is node:
        return None  # the division of a norm
    for value, scale in ((a, b), (b, a)):
        if not isinstance(value, Node) or not value.is_data:
            continue
        times = scalar_value(scale)
        if times is not None:
            if node.op.startswith("div"):
                return (value, _scale_factor(1.0 / times)) if value is a and times else None
            return value, _scale_factor(times)
        if isinstance(scale, Node):
            if not scale.is_data:
                return value, ScaleFactor(scale)
            if not scale.is_floating or _is_mask(scale, value):
                return value, None
    return None


def _scale_factor(times: float) -> ScaleFactor | None:
    """The factor, or None for 1 (a configuration multiplier left at its default)."""
    return None if times == 1.0 else ScaleFactor(times)


def _is_mask(scale: Node, value: Node) -> bool:
    """Whether `scale` is one number per token computed from inputs without weights (a mask)."""
    if len(scale.shape) == 0 or scale.shape[-1] != 1 or value.shape[-1:] == (1,):
        return False
    pending, visited = [scale], {scale}
    while pending:
        node = pending.pop()
        if node.op == "parameter" or is_contraction(node):
            return False
        unvisited = [p for p in node.parents if p not in visited]
        visited.update(unvisited)
        pending.extend(unvisited)
    return True


def _step_past_appended_tokens(node: Node) -> tuple[Node, ScaleFactor | None] | None:
    """Step past learned tokens that are concatenated to tokens computed from the inputs."""
    data = joined_tokens(node)
    if len(data) != 1:
        return None
    return data[0], None


def joined_tokens(node: Node) -> list[Node]:
    """The operands computed from the inputs that a concatenation of tokens joins, if it is one.

    A value of which some tokens were overwritten joins these and the others. Features that were
    overwritten are no tokens: the value goes on from the one before.
    """
    if (parts := find_continued_parts(node)) is not None:
        before, written = parts
        return [before, written] if written.shape[-1:] == node.shape[-1:] else [before]
    if node.op != "cat":
        return []
    dim = node.args[1] if len(node.args) > 1 else node.kwargs.get("dim", 0)
    if dim in (-1, len(node.shape) - 1):
        return []
    return [p for p in node.parents if p.origins]


def trace_origin(node: Node) -> TracedOrigin:
    """Trace back through views, casts, dropout, masks and scales to the value that is copied."""
    factors: list[ScaleFactor] = []
    while (step := step_back(node)) is not None:
        node, factor = step
        if factor is not None:
            factors.append(factor)
    return TracedOrigin(node, tuple(factors))


def trace_dependency(end: Node, start: Node) -> tuple[bool, bool]:
    """Return whether `end` depends on `start`, and whether through a contraction on some path."""
    if end is start:
        return True, False
    if end.index < start.index or not end.is_data:
        return False, False
    limit = start.index
    visited: dict[int, bool] = {}
    reached = through = False
    stack = [(end, False)]
    while stack:
        node, crossed = stack.pop()
        crossed_before = visited.get(node.index)
        if crossed_before is not None and (crossed_before or not crossed):
            continue
        visited[node.index] = crossed
        crossed = crossed or is_contraction(node)
        for parent in node.parents:
            if parent is start:
                reached = True
                through = through or crossed
                if through:
                    return True, True
            elif parent.index > limit and parent.parents:
                stack.append((parent, crossed))
    return reached, through


def nodes_between(start: Node, end: Node) -> set[Node]:
    """The nodes on all paths from `start` to `end`, both included; empty without a path."""
    limit = start.index
    above: list[Node] = []
    visited = {end}
    stack = [end]
    while stack:
        node = stack.pop()
        above.append(node)
        for parent in node.parents:
            if (
                parent not in visited
                and (parent.parents or parent is start)
                and parent.index >= limit
            ):
                visited.add(parent)
                stack.append(parent)
    if start not in visited:
        return set()
    inside = {start}
    for node in sorted(above, key=lambda n: n.index):
        if node is not start and any(p in inside for p in node.parents):
            inside.add(node)
    return inside if end in inside else set()
