"""Norm detection by data flow: the algebraic form of every operation, as the forward runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from normdiag.graph import Graph, Node
from normdiag.structure.algebraic_forms import (
    DetectedNorm,
    Form,
    GainedForm,
    LinearForm,
    MeanForm,
    NormForm,
    PowerForm,
    ScaleShiftTerm,
    SquareForm,
    TanhForm,
    linear_form,
    operand_form,
    preserves_layout,
    scalar_value,
)
from normdiag.structure.aten_operations import CASTS, PERMUTATIONS, RESHAPES, VIEWS
from normdiag.structure.denominator_forms import (
    add_to_power,
    match_clamp,
    match_pow,
    match_reciprocal,
    match_relu,
    match_rsqrt,
    match_sqrt,
    match_square,
    raise_to_exponent,
    scale_power,
    square_form,
    subtract_mean,
)
from normdiag.structure.dynamic_tanh import match_dyt_gain, match_scaled_tanh
from normdiag.structure.fused_norms import FUSED_NORM_PARSERS
from normdiag.structure.near_norms import (
    drop_quantised_values,
    match_near_norm,
    promote_pending_norms,
)
from normdiag.structure.norm_affine import (
    attach_bias,
    attach_gain,
    gained_form,
    is_same_call,
    match_addcmul,
    split_gain,
)
from normdiag.structure.norm_division import match_norm_division
from normdiag.structure.reductions import REDUCTION_MATCHERS
from normdiag.structure.scale_shift import combine_terms, match_mean_term


class NormDetector:
    """Assigns forms to nodes and collects the norms."""

    def __init__(self) -> None:
        self.norms: list[DetectedNorm] = []
        self._collected: set[DetectedNorm] = set()
        self._pending: list[Node] = []
        """Nodes that are x a, of which no mean was subtracted so far."""

    def detect_norm(self, node: Node) -> DetectedNorm | None:
        """Set `node.form` and return the norm that `node` completes or extends, if any."""
        parse_fused = FUSED_NORM_PARSERS.get(node.op)
        if parse_fused is not None:
            norm = parse_fused(node)
            if norm is not None:
                self._collected.add(norm)
                self.norms.append(norm)
                node.form = NormForm(norm)
            return norm
        handler = _HANDLERS.get(node.op)
        if handler is None or not node.parents:
            return None
        form = handler(node)
        if form is None and (near := match_near_norm(node)) is not None:
            form = NormForm(near)
        if form is None:
            return None
        node.form = form
        if isinstance(form, ScaleShiftTerm) and form.term == "value":
            self._pending.append(node)
            return form.norm  # measured here, where x is an operand; collected when complete
        if not isinstance(form, NormForm):
            return None
        norm = form.norm
        if norm not in self._collected:
            self._collected.add(norm)
            self.norms.append(norm)
        return norm if norm.output is node else None

    def complete_norms(self, graph: Graph) -> None:
        """Add what only the end of the forward shows to be a near-norm, and leave out what is not.

        The norms are then in the order of the forward.
        """
        self.norms += promote_pending_norms(self._pending, self._collected)
        self._collected.update(self.norms)
        self.norms = drop_quantised_values(self.norms, graph)
        self.norms.sort(key=lambda norm: norm.index)


def _match_cast(node: Node) -> Form | None:
    return node.parents[0].form  # type: ignore[no-any-return]


def _match_view(node: Node) -> Form | None:
    """Match a view: a reshaped statistic keeps its form; x and a permuted mean are new sources."""
    form: Form | None = node.parents[0].form
    if preserves_layout(node):
        return form
    is_moved = isinstance(form, MeanForm) and node.op in PERMUTATIONS
    if isinstance(form, (MeanForm, PowerForm)):
        return None if is_moved else form
    if isinstance(form, GainedForm) and isinstance(form.form, PowerForm):
        return form
    if isinstance(form, NormForm) and node.op in RESHAPES and form.norm.axes == (-1,):
        return form if node.shape[-1:] == node.parents[0].shape[-1:] else None
    return None


def _match_mul(node: Node) -> Form | None:
    a, b = node.args[0], node.args[1]
    if a is b and isinstance(a, Node):
        return square_form(a)
    for left, right in ((a, b), (b, a)):
        if not isinstance(left, Node):
            continue
        times = scalar_value(right)
        if times is not None:
            return _scale_form(node, left, times)
        if isinstance(right, Node):
            form = _match_product(node, left, right)
            if form is not None:
                return form
    return None


def _match_product(node: Node, left: Node, right: Node) -> Form | None:
    form = left.form
    is_learned = not right.is_data and right.is_floating
    divisor, gain = split_gain(right.form)
    if isinstance(divisor, PowerForm):
        if (
            isinstance(form, MeanForm)
            and (half := match_mean_term(form, divisor, gain)) is not None
        ):
            return half
        if linear_form(left) is not None:
            return match_norm_division(node, left, divisor, gain, inverted=True)
    if isinstance(form, NormForm) and is_learned:
        return attach_gain(node, form.norm, right)
    if isinstance(form, ScaleShiftTerm) and form.gain is None and is_learned:
        return replace(form, gain=right)
    if isinstance(form, TanhForm) and not right.is_data and right.shape:
        return match_dyt_gain(node, form, right)
    if not is_learned and (x := linear_form(left)) is not None and x == linear_form(right):
        return square_form(left)
    if is_learned and right.shape and left.is_data:
        return gained_form(left, right)
    return None


def _scale_form(node: Node, operand: Node, times: float) -> Form | None:
    """Scale a form by a constant: a scaled statistic keeps its form, a scaled x is a new source."""
    form = operand.form
    if isinstance(form, (LinearForm, SquareForm)):
        return replace(form, scale=form.scale * times)
    if isinstance(form, MeanForm) and not form.is_squared:
        return replace(form, scale=form.scale * times)
    if isinstance(form, PowerForm):
        return scale_power(form, times)
    if isinstance(form, NormForm) and is_same_call(node, form.norm):
        return attach_gain(node, form.norm, times)
    return None


def _match_div(node: Node) -> Form | None:
    a, b = node.args[0], node.args[1]
    by = scalar_value(b)
    if by and isinstance(a, Node):
        return _scale_form(node, a, 1.0 / by)
    if not isinstance(b, Node) or not isinstance(b.form, PowerForm):
        return None
    if isinstance(a, Node) and a.is_data:
        return match_norm_division(node, a, b.form, None, inverted=False)
    inverse = raise_to_exponent(b, -1.0)
    times = scalar_value(a)
    if inverse is None or times is not None:
        return None if inverse is None or times is None else scale_power(inverse, times)
    return GainedForm(inverse, a) if isinstance(a, Node) else None


def _match_addcdiv(node: Node) -> Form | None:
    """Match addcdiv(bias, gain (x - mean), s)."""
    bias, value, s = node.args[:3]
    is_learned = isinstance(bias, Node) and not bias.is_data
    if not is_learned or not isinstance(s, Node) or not isinstance(s.form, PowerForm):
        return None
    form = match_norm_division(node, value, s.form, None, inverted=False)
    if not isinstance(form, NormForm) or node.kwargs.get("value", 1) != 1:
        return None
    form.norm.biases.append(bias)
    return form


def _match_addcmul(node: Node) -> Form | None:
    """Match addcmul(bias, normalised, gain) or addcmul(bias - mean a, x, a)."""
    shift, a, b = node.args[:3]
    if isinstance(shift, Node) and isinstance(shift.form, ScaleShiftTerm):
        return combine_terms(node, (shift, shift.form), (a, _match_factors(node, a, b)), 1.0)
    return match_addcmul(node)


def _match_factors(node: Node, a: Node, b: Node) -> Form | None:
    return _match_product(node, a, b) or _match_product(node, b, a)


def _match_add(node: Node) -> Form | None:
    sign = -1.0 if node.op in ("sub", "rsub") else 1.0
    alpha = scalar_value(node.kwargs.get("alpha", 1))
    a, b = node.args[0], node.args[1]
    if node.op == "rsub":
        a, b = b, a
    if alpha != 1.0 or not isinstance(a, Node):
        a, b = (b, a) if isinstance(b, Node) and sign > 0 and alpha == 1.0 else (a, b)
        if alpha != 1.0 or not isinstance(a, Node):
            return None
    left, right = operand_form(a), operand_form(b)
    if isinstance(right, PowerForm) and not isinstance(left, PowerForm) and sign > 0:
        left, right, a, b = right, left, b, a
    if isinstance(left, PowerForm):
        return add_to_power(node, left, right, b, sign)
    if isinstance(left, ScaleShiftTerm) or isinstance(right, ScaleShiftTerm):
        return combine_terms(node, (a, left), (b, right), sign)
    if isinstance(right, MeanForm) and isinstance(b, Node):
        x = linear_form(a)
        return None if x is None else subtract_mean(x, right, b, sign)
    for form, other in ((left, b), (right, a)):
        is_learned = isinstance(other, Node) and not other.is_data and other.is_floating
        if isinstance(form, NormForm) and is_learned and is_same_call(node, form.norm):
            return attach_bias(node, form.norm, other)
    return None


_HANDLERS: dict[str, Callable[[Node], Form | None]] = {
    **REDUCTION_MATCHERS,
    **dict.fromkeys(CASTS, _match_cast),
    **dict.fromkeys(VIEWS, _match_view),
    "mul": _match_mul,
    "div": _match_div,
    "add": _match_add,
    "sub": _match_add,
    "rsub": _match_add,
    "pow": match_pow,
    "square": match_square,
    "sqrt": match_sqrt,
    "rsqrt": match_rsqrt,
    "reciprocal": match_reciprocal,
    "clamp_min": match_clamp,
    "clamp": match_clamp,
    "relu": match_relu,
    "maximum": match_clamp,
    "addcmul": _match_addcmul,
    "addcdiv": _match_addcdiv,
    "tanh": match_scaled_tanh,
}
