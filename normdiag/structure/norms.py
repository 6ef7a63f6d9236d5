"""Norms, known by what they compute: the form of every operation, as the forward runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from normdiag.graph import Node
from normdiag.structure.forms import (
    Form,
    Linear,
    Moment,
    Normal,
    NormFound,
    Power,
    Square,
    Tanh,
    base,
    form_of,
    linear,
    number,
)
from normdiag.structure.fused_norms import FUSED
from normdiag.structure.operations import CASTS, VIEWS
from normdiag.structure.reductions import REDUCTIONS


class NormFinder:
    """Gives every node its form; collects the norms."""

    def __init__(self) -> None:
        self.norms: list[NormFound] = []

    def read(self, node: Node) -> NormFound | None:
        """Set `node.form`. Returns the norm that `node` completes or extends, if any."""
        fused = FUSED.get(node.op)
        if fused is not None:
            found = fused(node)
            if found is not None:
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
        if not isinstance(form, Normal):
            return None
        norm = form.norm
        if norm.node is node:
            self.norms.append(norm)
        return norm if norm.output is node else None


def _passed_on(node: Node) -> Form | None:
    return node.parents[0].form  # type: ignore[no-any-return]


def _viewed(node: Node) -> Form | None:
    """A reshaped statistic is the same statistic; a reshaped x is a value of its own."""
    form = node.parents[0].form
    if isinstance(form, (Moment, Power)):
        return form
    if isinstance(form, Normal) and node.op in ("view", "_unsafe_view", "reshape"):
        return form if node.shape[-1:] == node.parents[0].shape[-1:] else None
    return None


def _squared(node: Node) -> Form | None:
    return _square_of(node.args[0])


def _square_of(operand: Node) -> Form | None:
    form: Form | None = linear(operand) or operand.form
    if isinstance(form, Linear):
        return Square(form.source, form.axes, form.is_centred, form.scale**2, form.mean)
    if isinstance(form, Moment) and not form.is_squared:
        return Moment(form.source, form.axes, form.scale**2, is_squared=True)
    if isinstance(form, Power) and form.exponent == 0.5 and form.eps == 0.0:
        return replace(form, exponent=1.0)
    return None


def _powered(node: Node) -> Form | None:
    exponent = number(node.args[1]) if len(node.args) > 1 else None
    if exponent == 2.0:
        return _squared(node)
    if exponent in (0.5, -0.5, -1.0):
        return _raised(node.args[0], exponent)
    return None


def _raised(operand: Node, exponent: float) -> Form | None:
    form = operand.form
    if not isinstance(form, Power) or form.eps_place != "inside":
        if isinstance(form, Power) and exponent == -1.0:
            return replace(form, exponent=-form.exponent)
        return None
    if form.exponent != 1.0 and exponent != -1.0:
        return None
    return replace(form, exponent=form.exponent * exponent)


def _rooted(node: Node) -> Form | None:
    return _raised(node.args[0], 0.5)


def _inverse_rooted(node: Node) -> Form | None:
    return _raised(node.args[0], -0.5)


def _inverted(node: Node) -> Form | None:
    return _raised(node.args[0], -1.0)


def _multiplied(node: Node) -> Form | None:
    a, b = node.args[0], node.args[1]
    if a is b and isinstance(a, Node):
        return _square_of(a)
    for left, right in ((a, b), (b, a)):
        if not isinstance(left, Node):
            continue
        times = number(right)
        if times is not None:
            return _scaled(node, left, times)
        if not isinstance(right, Node):
            continue
        x, form = linear(left), left.form
        if x is not None and isinstance(right.form, Power):
            return _divided_by(node, x, right.form, inverted=True)
        if isinstance(form, Normal) and not right.is_data and right.is_floating:
            return _with_gain(node, form.norm, right)
        if isinstance(form, Tanh) and not right.is_data and right.shape:
            return _dyt(node, form, right)
        if isinstance(form, Linear) and form == right.form:
            return _square_of(left)
    return None


def _tanh(node: Node) -> Form | None:
    """tanh(a x) with a learned scalar a, as DyT has it."""
    product = base(node.parents[0])
    if product.op not in ("mul", "multiply") or len(product.parents) != 2:
        return None
    for x, scalar in (product.parents, product.parents[::-1]):
        if x.is_data and scalar.op == "parameter" and scalar.shape in ((), (1,)):
            return Tanh(base(x), scalar)
    return None


def _scaled(node: Node, operand: Node, times: float) -> Form | None:
    """A scaled statistic is a statistic; a scaled x is a value of its own."""
    form = operand.form
    if isinstance(form, (Linear, Moment, Square)):
        squared = isinstance(form, Moment) and form.is_squared
        return None if squared else replace(form, scale=form.scale * times)
    if isinstance(form, Power) and form.exponent == 1.0 and form.eps == 0.0:
        return replace(form, scale=form.scale * times)
    if isinstance(form, Power) and form.exponent == 0.5 and form.eps == 0.0:
        return replace(form, scale=form.scale * times**2)
    if isinstance(form, Power) and form.exponent == -0.5 and form.eps == 0.0 and times:
        return replace(form, scale=form.scale / times**2)
    if isinstance(form, Normal) and _same_call(node, form.norm):
        return _with_gain(node, form.norm, times)
    return None


def _divided(node: Node) -> Form | None:
    a, b = node.args[0], node.args[1]
    by = number(b)
    if isinstance(b, Node) and isinstance(b.form, Power):
        x = linear(a) if isinstance(a, Node) else None
        if x is not None:
            return _divided_by(node, x, b.form, inverted=False)
        if number(a) is not None or (isinstance(a, Node) and not a.is_data):
            return _raised(b, -1.0)
    if by and isinstance(a, Node):
        return _scaled(node, a, 1.0 / by)
    return None


def _divided_by(node: Node, x: Linear, s: Power, inverted: bool) -> Form | None:
    if s.exponent != (-0.5 if inverted else 0.5) or s.is_centred != x.is_centred:
        return None
    if s.source is not x.source:
        unscaled, times = _unscaled(x.source)
        if s.source is not unscaled:
            return None
        x = replace(x, source=unscaled, scale=x.scale * times)
    unit = s.scale == s.count
    return Normal(
        NormFound(
            node=node,
            source=x.source,
            kind="layernorm" if s.is_centred else ("l2norm" if unit else "rmsnorm"),
            axes=s.axes,
            count=s.count,
            is_centred=s.is_centred,
            eps=s.eps,
            eps_place=s.eps_place,
            variance_scale=s.scale,
            factor=x.scale,
            frame=node.frame,
            output=node,
            mean=x.mean or s.mean,
        )
    )


def _unscaled(node: Node) -> tuple[Node, float]:
    """`node` is `times` an earlier value."""
    if node.op in ("mul", "div") and len(node.parents) == 1:
        times = number(node.args[1])
        if times:
            return base(node.parents[0]), times if node.op == "mul" else 1.0 / times
    return node, 1.0


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
        return _power_plus(left, right, b, sign)
    if isinstance(right, Moment) and isinstance(b, Node):
        x = linear(a)
        return None if x is None else _centred(x, right, b, sign)
    for form, other in ((left, b), (right, a)):
        is_learned = isinstance(other, Node) and not other.is_data and other.is_floating
        if isinstance(form, Normal) and is_learned and _same_call(node, form.norm):
            return _with_bias(node, form.norm, other)
    return None


def _power_plus(form: Power, other: Form | None, operand: object, sign: float) -> Form | None:
    if isinstance(other, Moment) and other.is_squared and sign < 0:
        uncentred = form.exponent == 1.0 and not form.is_centred and form.eps == 0.0
        if uncentred and other.source is form.source:
            return replace(form, is_centred=True)  # E[x^2] - E[x]^2
        return None
    eps: float | Node | None = number(operand)
    if eps is None and isinstance(operand, Node) and not operand.is_data:
        eps = operand
    if eps is None or sign < 0 or form.eps != 0.0:
        return None
    if form.exponent == 1.0:
        return replace(form, eps=eps)
    if form.exponent == 0.5:
        return replace(form, eps=eps, eps_place="outside")
    return None


def _centred(x: Linear, mean: Moment, node: Node, sign: float) -> Form | None:
    same = mean.source is x.source and not mean.is_squared and not x.is_centred
    if not same or abs(mean.scale * sign + x.scale) > 1e-9 * abs(x.scale):
        return None
    return replace(x, axes=mean.axes, is_centred=True, mean=node)


def _clamped(node: Node) -> Form | None:
    """max(s, eps): the floor under an L2 norm."""
    form = node.parents[0].form
    floor = node.args[1] if len(node.args) > 1 else node.kwargs.get("min")
    if not isinstance(form, Power) or form.eps != 0.0:
        return None
    value = number(floor)
    if value is None and isinstance(floor, Node) and not floor.is_data:
        return replace(form, eps=floor, eps_place="floor")
    if value is None:
        return None
    if form.exponent == 1.0:
        value = value**0.5
    return replace(form, eps=value, eps_place="floor")


def _multiplied_and_added(node: Node) -> Form | None:
    """addcmul(bias, normalised, gain)."""
    bias, a, b = node.args[:3]
    for form, gain in ((form_of(a), b), (form_of(b), a)):
        learned = all(isinstance(p, Node) and not p.is_data for p in (gain, bias))
        if isinstance(form, Normal) and learned:
            _with_gain(node, form.norm, gain)
            return _with_bias(node, form.norm, bias)
    return None


def _same_call(node: Node, norm: NormFound) -> bool:
    return node.frame is norm.node.frame


def _with_gain(node: Node, norm: NormFound, gain: Node | float) -> Form | None:
    if norm.output is None or not _follows(node, norm) or norm.biases:
        return None
    has_vector = any(isinstance(g, Node) for g in norm.gains)
    if isinstance(gain, Node) and (has_vector or norm.fused or not _same_call(node, norm)):
        return None
    if norm.fused:
        return None
    norm.gains.append(gain)
    norm.output = node
    return Normal(norm)


def _with_bias(node: Node, norm: NormFound, bias: Node) -> Form | None:
    if norm.fused or norm.biases or not _follows(node, norm):
        return None
    norm.biases.append(bias)
    norm.output = node
    return Normal(norm)


def _follows(node: Node, norm: NormFound) -> bool:
    """Whether `node` continues the norm from its present output (and not from an earlier part)."""
    for parent in node.parents:
        at = parent
        while at is not norm.output and (at.op in CASTS or at.op in VIEWS) and at.parents:
            at = at.parents[0]
        if at is norm.output:
            return True
    return False


def _dyt(node: Node, form: Tanh, gain: Node) -> Form | None:
    if len(gain.shape) != 1:
        return None
    return Normal(
        NormFound(
            node=node,
            source=form.source,
            kind="dyt",
            axes=(-1,),
            count=node.shape[-1],
            is_centred=False,
            eps=None,
            eps_place="inside",
            variance_scale=1.0,
            frame=node.frame,
            gains=[gain],
            output=node,
            alpha=form.alpha,
        )
    )


_HANDLERS: dict[str, Callable[[Node], Form | None]] = {
    **REDUCTIONS,
    **dict.fromkeys(CASTS, _passed_on),
    **dict.fromkeys(VIEWS, _viewed),
    "mul": _multiplied,
    "multiply": _multiplied,
    "div": _divided,
    "divide": _divided,
    "add": _added,
    "sub": _added,
    "rsub": _added,
    "pow": _powered,
    "square": _squared,
    "sqrt": _rooted,
    "rsqrt": _inverse_rooted,
    "reciprocal": _inverted,
    "clamp_min": _clamped,
    "clamp": _clamped,
    "maximum": _clamped,
    "addcmul": _multiplied_and_added,
    "tanh": _tanh,
}
