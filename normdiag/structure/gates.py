"""Gates: sigmoids of data, and 1 minus one."""

from __future__ import annotations

from normdiag.graph import Node
from normdiag.structure.algebraic_forms import scalar_value
from normdiag.structure.aten_operations import SIGMOIDS, skip_views


def is_gate(node: Node) -> bool:
    """Whether a value is a sigmoid of data, or 1 minus one."""
    node = skip_views(node)
    sign, offset = 1.0, 0.0  # the value is sign * node + offset
    while (step := _invert_shift(node)) is not None:
        offset += sign * step[1]
        sign *= step[0]
        node = skip_views(node.parents[0])
    if node.op == "write":  # a part of it was overwritten in place
        return any(map(is_gate, node.parents))
    is_between = (sign, offset) in ((1.0, 0.0), (-1.0, 1.0))
    return node.op in SIGMOIDS and node.is_data and is_between


def step_past_gate(node: Node) -> tuple[Node, None] | None:
    """Step past the product of a value with a gate."""
    if node.op != "mul" or len(node.parents) != 2:
        return None
    for value, gate in (node.parents, node.parents[::-1]):
        if value.shape == node.shape and is_gate(gate):
            return value, None
    return None


def _invert_shift(node: Node) -> tuple[float, float] | None:
    """Sign and offset of a value that is plus or minus its one operand, plus a number."""
    if node.op == "neg":
        return -1.0, 0.0
    if node.op not in ("add", "sub", "rsub") or len(node.parents) != 1:
        return None
    number = scalar_value(node.args[1])
    if number is None or scalar_value(node.kwargs.get("alpha", 1)) != 1.0:
        return None
    return {"add": (1.0, number), "sub": (1.0, -number), "rsub": (-1.0, number)}[node.op]
