"""Norms, known by what they compute: the form of every operation, as the forward runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from normdiag.graph import Node
from normdiag.structure.affine import multiplied_and_added, same_call, with_bias, with_gain
from normdiag.structure.dyt import dyt_gain, tanh_of
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
from normdiag.structure.powers import (
    centred,
    clamped,
    inverse_rooted,
    inverted,
    power_plus,
    powered,
    raised,
    rooted,
    square_of,
    squared,
)
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
        if not isinstance(right, Node):
            continue
        x, form = linear(left), left.form
        if x is not None and isinstance(right.form, Power):
            return _divided_by(node, x, right.form, inverted=True)
        if isinstance(form, Normal) and not right.is_data and right.is_floating:
            return with_gain(node, form.norm, right)
        if isinstance(form, Tanh) and not right.is_data and right.shape:
            return dyt_gain(node, form, right)
        if isinstance(form, Linear) and form == right.form:
            return square_of(left)
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
    if isinstance(form, Normal) and same_call(node, form.norm):
        return with_gain(node, form.norm, times)
    return None


def _divided(node: Node) -> Form | None:
    a, b = node.args[0], node.args[1]
    by = number(b)
    if isinstance(b, Node) and isinstance(b.form, Power):
        x = linear(a) if isinstance(a, Node) else None
        if x is not None:
            return _divided_by(node, x, b.form, inverted=False)
        if number(a) is not None or (isinstance(a, Node) and not a.is_data):
            return raised(b, -1.0)
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
        return power_plus(left, right, b, sign)
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
    "multiply": _multiplied,
    "div": _divided,
    "divide": _divided,
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
    "maximum": clamped,
    "addcmul": multiplied_and_added,
    "tanh": tanh_of,
}
