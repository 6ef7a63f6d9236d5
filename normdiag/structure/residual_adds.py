"""Residual adds: additions of which one operand is computed from the other.

They are detected when the addition runs, since ancestors precede it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from normdiag.graph import Node
from normdiag.structure.algebraic_forms import scalar_value
from normdiag.structure.aten_operations import ADDITIONS, part_axis
from normdiag.structure.dataflow import (
    TracedOrigin,
    joined_tokens,
    step_back,
    trace_dependency,
    trace_origin,
)
from normdiag.structure.gated_residuals import find_gated_skip
from normdiag.structure.projected_skips import find_projected_root
from normdiag.structure.stream_lanes import find_mixed_lanes


@dataclass(slots=True, eq=False)
class DetectedAdd:
    """One residual add y = x + u_1 + .., of one or more ATen additions."""

    node: Node
    """The (last) addition."""
    skip: Node
    """x, the skip operand of the addition."""
    branches: list[Node]
    """Each u, the branch operands."""
    skip_index: int
    """Position of x among the operands of the first addition."""
    root: Node
    """The value where the branch leaves the stream: what x copies, or an earlier value of it."""
    sign: float = 1.0
    continued_add: DetectedAdd | None = None
    """The earlier addition that this one continues: (x + u_1) + u_2."""
    is_continued: bool = False
    is_mixed: bool = False
    """Whether x is a mixture of the lanes of the stream."""
    is_gated: bool = False
    """Whether x is multiplied by a gate that is computed from data: y = g x + u."""
    is_projected: bool = False
    """Whether the skip operand is a projection of x, by linear weights or by pooling."""
    is_part: bool = False
    """Whether the skip is a part of the features of x and the branch reads another part."""
    before: DetectedAdd | None = None
    """The add that wrote `root`, if one did."""

    @property
    def index(self) -> int:
        return self.node.index


_LONGEST_DELAY = 8
"""Largest number of adds between a branch's input and its addition."""


class ResidualAddDetector:
    """Detects residual adds as they run."""

    def __init__(self) -> None:
        self.adds: list[DetectedAdd] = []
        self.plain_additions: list[Node] = []
        """Additions of two data values of one shape that are not residual adds."""
        self.mixed_lanes: dict[Node, Node] = {}
        """The stream by the product that mixes its lanes."""
        self._by_node: dict[Node, DetectedAdd] = {}

    def detect_add(self, node: Node) -> DetectedAdd | None:
        """Return the residual add that `node` computes, if any."""
        operands = addition_operands(node)
        if operands is None:
            return None
        a, b = operands
        if node.op == "sub" and self._subtracts_older_value(a, b):
            return None
        for i, (skip, branch) in enumerate(((a, b), (b, a))):
            add = self._match_residual(node, skip, branch, i)
            if add is not None:
                self.adds.append(add)
                self._keep_add(add)
                return add
        if not (a.is_data and b.is_data):
            return None
        add = self._match_projected_skip(node, a, b)
        if add is None:
            self.plain_additions.append(node)
            return None
        self.adds.append(add)
        self._keep_add(add)
        return add

    def _keep_add(self, add: DetectedAdd) -> None:
        add.before = self._by_node.get(add.root)
        self._by_node[add.node] = add

    def _match_projected_skip(self, node: Node, a: Node, b: Node) -> DetectedAdd | None:
        """Match P(x) + F(x), a skip through linear weights or pooling."""
        if node.op != "add" or not a.shape == b.shape == node.shape:
            return None
        for i, (skip, branch) in enumerate(((a, b), (b, a))):
            root = find_projected_root(skip, branch, self._by_node)
            if root is not None:
                return DetectedAdd(node, skip, [branch], i, root, is_projected=True)
        return None

    def _match_residual(self, node: Node, skip: Node, branch: Node, i: int) -> DetectedAdd | None:
        if skip.shape != node.shape or branch.shape[-1:] != node.shape[-1:]:
            return None
        if node.op == "sub" and (i == 1 or step_back(node) is not None):
            return None  # u - x subtracts the stream; x minus a filter of x adds nothing
        start = trace_origin(skip)
        mixed = find_mixed_lanes(node, trace_past_bias(skip), branch)
        if mixed is not None:
            self.mixed_lanes[mixed.product] = mixed.lanes
            return DetectedAdd(node, node.args[i], [branch], i, mixed.lanes, is_mixed=True)
        is_derived, is_contracted = trace_dependency(branch, start.node)
        if not is_derived and (biased := step_past_bias(start.node)) is not None:
            behind = trace_origin(biased)
            is_derived, is_contracted = trace_dependency(branch, behind.node)
            start = behind if is_contracted else start
        if is_contracted:
            return DetectedAdd(node, skip, [branch], i, start.node, _branch_sign(node, i))
        if is_derived:
            return None
        return (
            self._match_joined_tokens(node, skip, branch, i)
            or self._match_gated_skip(node, skip, branch, i)
            or self._match_continuation(node, start, branch, i)
            or self._match_delayed_branch(node, skip, branch, i)
            or _match_part(node, skip, start.node, branch, i)
        )

    def _subtracts_older_value(self, skip: Node, branch: Node) -> bool:
        """Whether what earlier adds wrote is computed as the stream minus its value before them."""
        value, older = trace_origin(skip).node, trace_origin(branch).node
        for _ in range(_LONGEST_DELAY):
            earlier = self._by_node.get(value)
            if earlier is None:
                return False
            value = earlier.root
            if value is older:
                return True
        return False

    def _match_joined_tokens(
        self, node: Node, skip: Node, branch: Node, i: int
    ) -> DetectedAdd | None:
        """Match a skip operand that joins tokens cut off before the branch read the others."""
        joined = trace_origin(skip).node
        origins = [trace_origin(tokens).node for tokens in joined_tokens(joined)]
        root = max(origins, key=lambda n: n.index, default=None)
        if root is None or not trace_dependency(branch, root)[1]:
            return None
        return DetectedAdd(node, skip, [branch], i, root, _branch_sign(node, i))

    def _match_gated_skip(self, node: Node, skip: Node, branch: Node, i: int) -> DetectedAdd | None:
        """Match g x + g' u; in n + z (x - n), the difference is no residual add."""
        x = find_gated_skip(skip, branch)
        if x is None:
            return None
        root = trace_origin(x).node
        if not trace_dependency(branch, root)[1]:
            return None
        for difference in trace_origin(skip).node.parents:
            if (inner := self._by_node.get(trace_origin(difference).node)) is not None:
                inner.is_continued = inner.is_continued or inner.node.op == "sub"
        return DetectedAdd(node, x, [branch], i, root, is_gated=True)

    def _match_continuation(
        self, node: Node, start: TracedOrigin, branch: Node, i: int
    ) -> DetectedAdd | None:
        """Match (x + u_1) + u_2: a second branch that reads the same x."""
        earlier = self._by_node.get(start.node)
        if earlier is None or start.factors or earlier.is_continued:
            return None
        if earlier.node.shape != node.shape:  # to some of its tokens, or in another layout
            return None
        if not trace_dependency(branch, earlier.root)[1]:
            return None
        earlier.is_continued = True
        return DetectedAdd(
            node,
            earlier.skip,
            [*earlier.branches, branch],
            earlier.skip_index,
            earlier.root,
            continued_add=earlier,
        )

    def _match_delayed_branch(
        self, node: Node, skip: Node, branch: Node, i: int
    ) -> DetectedAdd | None:
        """Match a branch that reads a stream value before earlier adds (a shortcut around them)."""
        value = trace_origin(skip).node
        for _ in range(_LONGEST_DELAY):
            value = value if value in self._by_node else trace_past_bias(value)
            earlier = self._by_node.get(value)
            if earlier is None:
                return None
            value = earlier.root
            if trace_dependency(branch, value)[1]:
                return DetectedAdd(node, skip, [branch], i, value, _branch_sign(node, i))
        return None


def _match_part(node: Node, skip: Node, start: Node, branch: Node, i: int) -> DetectedAdd | None:
    """Match x1 + F(x2) with x1 and x2 parts of the features of one value (a reversible block)."""
    if node.op != "add" or part_axis(start) != -1:
        return None
    whole = trace_origin(start.parents[0]).node
    if whole.shape[-1] < 2 * node.shape[-1] or not trace_dependency(branch, whole)[1]:
        return None
    return DetectedAdd(node, skip, [branch], i, whole, is_part=True)


def step_past_bias(node: Node) -> Node | None:
    """Step past the sum of a value with a learned vector, such as the bias of a fused branch."""
    if node.op != "add" or scalar_value(node.kwargs.get("alpha", 1)) != 1:
        return None
    data = [p for p in node.parents if p.is_data and p.shape == node.shape]
    learned = [p for p in node.parents if not p.is_data and len(p.shape) == 1]
    return data[0] if len(data) == len(learned) == 1 else None


def trace_past_bias(node: Node) -> Node:
    """Trace back to the value that is copied, past one learned vector that is added to it."""
    origin = trace_origin(node).node
    biased = step_past_bias(origin)
    return origin if biased is None else trace_origin(biased).node


def _branch_sign(node: Node, skip_index: int) -> float:
    return -1.0 if node.op == "sub" and skip_index == 0 else 1.0


def addition_operands(node: Node) -> tuple[Node, Node] | None:
    """The two data operands of an addition of activations."""
    if node.op not in ADDITIONS or not node.is_data or not node.is_floating:
        return None
    if len(node.shape) < 2 or scalar_value(node.kwargs.get("alpha", 1)) is None:
        return None
    a, b = _raw_operands(node)
    if not (isinstance(a, Node) and isinstance(b, Node) and (a.is_data or b.is_data)):
        return None
    if not (a.is_floating and b.is_floating) or a is b:
        return None
    return a, b


def _raw_operands(node: Node) -> tuple[Any, Any]:
    if node.op == "addcmul":  # x + value * gate * u: the gate is a scale
        x, a, b = node.args[:3]
        return (x, a if not _is_data(b) else b) if _is_data(x) else (x, a)
    return node.args[0], node.args[1]


def _is_data(value: Any) -> bool:
    return isinstance(value, Node) and value.is_data


def is_doubling(node: Node) -> bool:
    """Whether an activation is added to itself."""
    if node.op != "add" or not (node.is_data and node.is_floating) or len(node.args) < 2:
        return False
    return node.args[0] is node.args[1] and len(node.shape) > 1


def branch_summands(branch: Node, root: Node) -> list[Node]:
    """The terms of a branch that is a sum of values computed from the same stream value."""
    node = trace_origin(branch).node
    operands = addition_operands(node)
    if operands is None:
        return [branch]
    if not all(trace_dependency(o, root)[1] for o in operands):
        return [branch]
    if any(trace_dependency(a, trace_origin(b).node)[0] for a, b in (operands, operands[::-1])):
        return [branch]
    return [term for o in operands for term in branch_summands(o, root)]
