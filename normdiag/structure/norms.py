"""Norms, known by what they compute: the form of every operation, as the forward runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from normdiag.graph import Node
from normdiag.structure.affine import (
    multiplied_and_added,
    same_call,
    unweighted,
    weighted,
    with_bias,
    with_gain,
)
from normdiag.structure.divisions import divided_by
from normdiag.structure.dyt import dyt_gain, tanh_of
from normdiag.structure.forms import (
    Form,
    Half,
    Linear,
    Moment,
    Normal,
    NormFound,
    Power,
    Square,
    Tanh,
    Weighted,
    form_of,
    keeps_places,
    linear,
    number,
)
from normdiag.structure.fused_norms import FUSED
from normdiag.structure.halves import halves_added, mean_half
from normdiag.structure.operations import CASTS, RESHAPES, VIEWS
from normdiag.structure.powers import (
    centred,
    clamped,
    inverse_rooted,
    inverted,
    power_plus,
    power_times,
    powered,
    raised,
    rectified,
    rooted,
    square_of,
    squared,
)
from normdiag.structure.reductions import REDUCTIONS
from normdiag.structure.self_products import einsum_of


class NormFinder:
    """Gives every node its form; collects the norms."""

    def __init__(self) -> None:
        self.norms: list[NormFound] = []
        self._collected: set[NormFound] = set()

    def read(self, node: Node) -> NormFound | None:
        """Set `node.form`. Returns the norm that `node` completes or extends, if any."""
        fused = FUSED.get(node.op)
        if fused is not None:
            found = fused(node)
            if found is not None:
                self._collected.add(found)
                self.norms.append(found)
                node.form = Normal(found)
            return found
        handler = _HANDLERS.get(node.op)
        if handler is None or not node.parents:
            return None
        form = handler(node)
        if form is None:
            return None
        node.form = form
        if isinstance(form, Half) and form.side == "value":
            return form.norm  # measured where x is at hand; collected when it is complete
        if not isinstance(form, Normal):
            return None
        norm = form.norm
        if norm not in self._collected:
            self._collected.add(norm)
            self.norms.append(norm)
        return norm if norm.output is node else None


def _passed_on(node: Node) -> Form | None:
    return node.parents[0].form  # type: ignore[no-any-return]


def _viewed(node: Node) -> Form | None:
    """A reshaped statistic is the same statistic; a reshaped x is a value of its own."""
    form: Form | None = node.parents[0].form
    if keeps_places(node):
        return form
    if isinstance(form, (Moment, Power)):
        return form
    if isinstance(form, Weighted) and isinstance(form.of, Power):
        return form
    if isinstance(form, Normal) and node.op in RESHAPES and form.norm.axes == (-1,):
        return form if node.shape[-1:] == node.parents[0].shape[-1:] else None
    return None


def _multiplied(node: Node) -> Form | None:
    a, b = node.args[0], node.args[1]
    if a is b and isinstance(a, Node):
        return square_of(a)
    for left, right in ((a, b), (b, a)):
        if not isinstance(left, Node):
            continue
        times = number(right)
        if times is not None:
            return _scaled(node, left, times)
        if isinstance(right, Node):
            form = _product(node, left, right)
            if form is not None:
                return form
    return None


def _product(node: Node, left: Node, right: Node) -> Form | None:
    form = left.form
    is_learned = not right.is_data and right.is_floating
    divisor, gain = unweighted(right.form)
    if isinstance(divisor, Power):
        if isinstance(form, Moment) and (half := mean_half(form, divisor, gain)) is not None:
            return half
        if linear(left) is not None:
            return divided_by(node, left, divisor, gain, inverted=True)
    if isinstance(form, Normal) and is_learned:
        return with_gain(node, form.norm, right)
    if isinstance(form, Half) and form.gain is None and is_learned:
        return replace(form, gain=right)
    if isinstance(form, Tanh) and not right.is_data and right.shape:
        return dyt_gain(node, form, right)
    if not is_learned and (x := linear(left)) is not None and x == linear(right):
        return square_of(left)
    if is_learned and right.shape and left.is_data:
        return weighted(left, right)
    return None


def _einsum(node: Node) -> Form | None:
    """A statistic of x, or x times its inverse and a gain."""
    einsum = einsum_of(node)
    if einsum is None or not einsum.is_elementwise:
        return None if einsum is None else einsum.statistic()
    value = einsum.operands[einsum.inputs.index(einsum.output)]
    divisor: Power | None = None
    gain: Node | None = None
    for operand in einsum.operands:
        if operand is value:
            continue
        if isinstance(operand.form, Power) and divisor is None:
            divisor = operand.form
        elif not operand.is_data and gain is None:
            gain = operand
        else:
            return None
    return None if divisor is None else divided_by(node, value, divisor, gain, inverted=True)


def _scaled(node: Node, operand: Node, times: float) -> Form | None:
    """A scaled statistic is a statistic; a scaled x is a value of its own."""
    form = operand.form
    if isinstance(form, (Linear, Square)):
        return replace(form, scale=form.scale * times)
    if isinstance(form, Moment) and not form.is_squared:
        return replace(form, scale=form.scale * times)
    if isinstance(form, Power):
        return power_times(form, times)
    if isinstance(form, Normal) and same_call(node, form.norm):
        return with_gain(node, form.norm, times)
    return None


def _divided(node: Node) -> Form | None:
    a, b = node.args[0], node.args[1]
    by = number(b)
    if by and isinstance(a, Node):
        return _scaled(node, a, 1.0 / by)
    if not isinstance(b, Node) or not isinstance(b.form, Power):
        return None
    if isinstance(a, Node) and a.is_data:
        return divided_by(node, a, b.form, None, inverted=False)
    inverse = raised(b, -1.0)
    times = number(a)
    if inverse is None or times is not None:
        return None if inverse is None or times is None else power_times(inverse, times)
    return Weighted(inverse, a) if isinstance(a, Node) else None


def _divided_and_added(node: Node) -> Form | None:
    """addcdiv(bias, gain (x - mean), s)."""
    bias, value, s = node.args[:3]
    is_learned = isinstance(bias, Node) and not bias.is_data
    if not is_learned or not isinstance(s, Node) or not isinstance(s.form, Power):
        return None
    form = divided_by(node, value, s.form, None, inverted=False)
    if not isinstance(form, Normal) or node.kwargs.get("value", 1) != 1:
        return None
    form.norm.biases.append(bias)
    return form


def _multiplied_and_added(node: Node) -> Form | None:
    """addcmul(bias, normalised, gain), or addcmul(bias - mean a, x, a)."""
    shift, a, b = node.args[:3]
    if isinstance(shift, Node) and isinstance(shift.form, Half):
        return halves_added(node, (shift, shift.form), (a, _multiplied_parts(node, a, b)), 1.0)
    return multiplied_and_added(node)


def _multiplied_parts(node: Node, a: Node, b: Node) -> Form | None:
    return _product(node, a, b) or _product(node, b, a)


def _added(node: Node) -> Form | None:
    sign = -1.0 if node.op in ("sub", "rsub") else 1.0
    alpha = number(node.kwargs.get("alpha", 1))
    a, b = node.args[0], node.args[1]
    if node.op == "rsub":
        a, b = b, a
    if alpha != 1.0 or not isinstance(a, Node):
        a, b = (b, a) if isinstance(b, Node) and sign > 0 and alpha == 1.0 else (a, b)
        if alpha != 1.0 or not isinstance(a, Node):
            return None
    left, right = form_of(a), form_of(b)
    if isinstance(right, Power) and not isinstance(left, Power) and sign > 0:
        left, right, a, b = right, left, b, a
    if isinstance(left, Power):
        return power_plus(left, right, b, sign)
    if isinstance(left, Half) or isinstance(right, Half):
        return halves_added(node, (a, left), (b, right), sign)
    if isinstance(right, Moment) and isinstance(b, Node):
        x = linear(a)
        return None if x is None else centred(x, right, b, sign)
    for form, other in ((left, b), (right, a)):
        is_learned = isinstance(other, Node) and not other.is_data and other.is_floating
        if isinstance(form, Normal) and is_learned and same_call(node, form.norm):
            return with_bias(node, form.norm, other)
    return None


_HANDLERS: dict[str, Callable[[Node], Form | None]] = {
    **REDUCTIONS,
    **dict.fromkeys(CASTS, _passed_on),
    **dict.fromkeys(VIEWS, _viewed),
    "mul": _multiplied,
    "div": _divided,
    "einsum": _einsum,
    "add": _added,
    "sub": _added,
    "rsub": _added,
    "pow": powered,
    "square": squared,
    "sqrt": rooted,
    "rsqrt": inverse_rooted,
    "reciprocal": inverted,
    "clamp_min": clamped,
    "clamp": clamped,
    "relu": rectified,
    "maximum": clamped,
    "addcmul": _multiplied_and_added,
    "addcdiv": _divided_and_added,
    "tanh": tanh_of,
}
