"""Activations: functions of one value, element by element, that are not linear."""

from __future__ import annotations

from normdiag.graph import Node
from normdiag.structure.algebraic_forms import NormForm, PowerForm, SquareForm
from normdiag.structure.aten_operations import CASTS, DROPOUT, MASKING, VIEWS

_UNMARKED = frozenset({"hardswish", "_prelu_kernel", "log_sigmoid_forward", "rrelu_with_noise"})
"""Pointwise operations that torch does not mark as such."""
_LINEAR = frozenset(
    {
        "add", "sub", "rsub", "mul", "div", "neg", "lerp", "addcmul", "addcdiv", "round",
        *CASTS, *DROPOUT, *VIEWS, *MASKING,
    }
)  # fmt: skip
"""Pointwise operations that are linear, or stand for a linear one: quantised, masked, cast."""
_ARITHMETIC = frozenset({"add", "sub", "mul", "div"})
_MOST_STEPS = 4
"""Operations that an activation of several is written in."""


def is_activation(node: Node) -> bool:
    """Whether it is one operation on one value, of the same shape, that is not linear."""
    return _find_operand(node) is not None and node.op not in _LINEAR and not _is_statistic(node)


def find_activated_value(node: Node) -> Node | None:
    """Return x of f(x), in one operation or as x sigmoid(x) and x / (1 + |x|) are written.

    None where `node` is no activation.
    """
    if is_activation(node):
        return _find_operand(node)
    data = [p for p in node.parents if p.is_data]
    if node.op not in _ARITHMETIC or len(data) != 2 or _is_statistic(node):
        return None
    for x, function in (data, data[::-1]):
        if x.shape == node.shape and _is_function(function, x):
            return x
    return None


def _is_function(node: Node, x: Node) -> bool:
    """Whether a value is a function of x, element by element, that is not linear."""
    passes_activation = False
    for _ in range(_MOST_STEPS):
        operand = _find_operand(node)
        if operand is None or _is_statistic(node):
            return False
        passes_activation = passes_activation or is_activation(node)
        node = operand
        if node is x:
            return passes_activation
    return False


def _find_operand(node: Node) -> Node | None:
    """The only operand that is data, where the operation works element by element."""
    if not (node.is_pointwise or node.op in _UNMARKED) or not node.is_floating or node.output:
        return None
    data = [p for p in node.parents if p.is_data]
    return data[0] if len(data) == 1 and data[0].shape == node.shape else None


def _is_statistic(node: Node) -> bool:
    return isinstance(node.form, (NormForm, PowerForm, SquareForm))
