"""Inner products of x with itself, written as matrix product, vecdot or einsum."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from normdiag.graph import Node
from normdiag.structure.algebraic_forms import Form, LinearForm, MeanForm, PowerForm, linear_form
from normdiag.structure.aten_operations import CASTS, VIEWS


def match_row_product(node: Node) -> Form | None:
    """Match a (batched) matrix product of a row with itself."""
    if len(node.shape) < 2 or node.shape[-2:] != (1, 1) or len(node.parents) < 2:
        return None
    left, right = (_skip_plain_views(p) for p in node.parents[:2])
    count = node.parents[0].shape[-1]
    if left.shape[-1:] != (count,) or prod(left.shape) != prod(node.parents[0].shape):
        return None
    return _square_sum(linear_form(left), linear_form(right), (-1,), count)


def match_vecdot(node: Node) -> Form | None:
    """Match linalg.vecdot(x, x, dim)."""
    left, right = node.args[:2]
    dim = node.args[2] if len(node.args) > 2 else node.kwargs.get("dim", -1)
    axis = dim if dim < 0 else dim - len(left.shape)
    return _square_sum(linear_form(left), linear_form(right), (axis,), left.shape[axis])


def _square_sum(
    left: LinearForm | None, right: LinearForm | None, axes: tuple[int, ...], count: int
) -> Form | None:
    if left is None or left != right:
        return None
    scale = left.scale**2 * count
    return PowerForm(left.source, axes, left.is_centred, scale, count, mean=left.mean)


def _skip_plain_views(node: Node) -> Node:
    while node.parents and node.form is None and (node.op in VIEWS or node.op in CASTS):
        node = node.parents[0]
    return node


@dataclass(frozen=True, slots=True)
class Einsum:
    """einsum(inputs -> output) of operands; an ellipsis counts as one letter."""

    inputs: tuple[str, ...]
    output: str
    operands: tuple[Node, ...]

    @property
    def is_elementwise(self) -> bool:
        """Whether nothing is summed and one operand has the axes of the result in their order."""
        return self.output in self.inputs and set("".join(self.inputs)) == set(self.output)

    def match_self_reduction(self) -> Form | None:
        """Match a sum of x, or of x times x, over the letters that the output lacks."""
        letters = self.inputs[0]
        first = self.operands[0]
        output_letters = [c for c in letters if c in self.output]
        if "".join(output_letters) != self.output or any(s != letters for s in self.inputs):
            return None
        summed = [i - len(letters) for i, c in enumerate(letters) if c not in self.output]
        if not summed or ("." in letters and letters.index(".") > summed[0] + len(letters)):
            return None
        axes, forms = tuple(summed), [linear_form(o) for o in self.operands]
        count = prod(first.shape[a] for a in axes)
        if len(forms) == 2:
            return _square_sum(forms[0], forms[1], axes, count)
        x = forms[0]
        if len(forms) != 1 or x is None or x.is_centred:
            return None
        return MeanForm(x.source, axes, x.scale * count)


def parse_einsum(node: Node) -> Einsum | None:
    """Parse the equation and operands of an einsum recorded as one operation (inference mode)."""
    equation, operands = node.args[0], node.args[1]
    left, arrow, output = str(equation).replace(" ", "").replace("...", ".").partition("->")
    inputs = tuple(left.split(","))
    is_read = bool(arrow) and all(isinstance(o, Node) for o in operands)
    if not is_read or len(inputs) != len(operands) or any(len(set(s)) < len(s) for s in inputs):
        return None
    return Einsum(inputs, output, tuple(operands))
