"""Algebraic forms: a value as a function of an earlier one, in the terms that norms consist of.

Each operation maps the forms of its operands to the form of its result, so a norm is detected by
what it computes, however it is written. With x the source, over the reduced axes:

    LinearForm       c (x - mean(x))  or  c x
    MeanForm         c mean(x)
    SquareForm       c (x - mean(x))^2  or  c x^2, elementwise
    PowerForm        (c m2 + eps)^p,  m2 = mean of the squares (centred or not)
    NormForm         the normalised value, times gains, plus biases
    TanhForm         tanh(a x), with a learned scalar a (DyT, Zhu et al. 2025)
    GainedForm       a LinearForm or PowerForm times a learned gain, before the division
    ScaleShiftTerm   one term of (x a) + (bias - mean(x) a),  a = gain (c m2 + eps)^(-1/2)
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from normdiag.graph import Frame, Node
from normdiag.structure.aten_operations import CASTS, RESHAPES

if TYPE_CHECKING:
    from normdiag.structure.scaling_statistic import ScalingStatistic

EpsPlace = Literal["inside", "outside", "floor", "floor-inside"]
"""s is sqrt(c m2 + eps), sqrt(c m2) + eps, max(sqrt(c m2), eps) or sqrt(max(c m2, eps)): epsilon
has the unit of m2 where it is inside the root, else that of x."""


@dataclass(frozen=True, slots=True)
class LinearForm:
    source: Node
    axes: tuple[int, ...] = ()
    is_centred: bool = False
    scale: float = 1.0
    mean: Node | None = None
    """The node that was subtracted."""


@dataclass(frozen=True, slots=True)
class MeanForm:
    source: Node
    axes: tuple[int, ...]
    scale: float = 1.0
    is_squared: bool = False
    """mean(x)^2 instead of mean(x)."""


@dataclass(frozen=True, slots=True)
class SquareForm:
    source: Node
    axes: tuple[int, ...]
    is_centred: bool
    scale: float
    mean: Node | None = None


@dataclass(frozen=True, slots=True)
class PowerForm:
    source: Node
    axes: tuple[int, ...]
    is_centred: bool
    scale: float
    count: int
    """Number of elements in the mean."""
    exponent: float = 1.0
    eps: float | Node = 0.0
    eps_place: EpsPlace = "inside"
    eps_dtype: str | None = None
    """Dtype of the sum, or of the maximum, with epsilon."""
    mean: Node | None = None


@dataclass(frozen=True, slots=True)
class TanhForm:
    source: Node
    alpha: Node


@dataclass(slots=True, eq=False)
class DetectedNorm:
    """One detected norm: y = gain * z / s + bias with z = x or x - mean(x)."""

    node: Node
    """The division, or the fused operation."""
    source: Node
    """x."""
    kind: str
    axes: tuple[int, ...]
    count: int
    is_centred: bool
    eps: float | Node | None
    eps_place: EpsPlace
    variance_scale: float
    """c of c m2 + eps: 1, n/(n-1) for an unbiased variance, n for a sum of squares."""
    factor: float = 1.0
    frame: Frame | None = None
    gains: list[Node | float] = field(default_factory=list)
    biases: list[Node | float] = field(default_factory=list)
    output: Node | None = None
    """The last node of division, gain and bias."""
    mean: Node | None = None
    """The subtracted mean, where it is a separate node."""
    groups: int = 1
    is_fused: bool = False
    eps_dtype: str | None = None
    """Dtype of the sum, or of the maximum, with epsilon; None for one fused operation."""
    running_mean: Node | None = None
    running_var: Node | None = None
    alpha: Node | None = None
    statistic: ScalingStatistic | None = None
    """Of a near-norm, kind "other": what x is scaled by."""

    @property
    def is_eps_inside(self) -> bool:
        """Whether epsilon is under the root, in the unit of the mean square."""
        return self.eps_place in ("inside", "floor-inside")

    @property
    def index(self) -> int:
        return self.node.index


@dataclass(frozen=True, slots=True)
class NormForm:
    norm: DetectedNorm


@dataclass(frozen=True, slots=True)
class GainedForm:
    form: LinearForm | PowerForm
    gain: Node


@dataclass(frozen=True, slots=True)
class ScaleShiftTerm:
    norm: DetectedNorm
    """The norm under construction; its division is x times the inverse deviation."""
    term: Literal["value", "mean", "shift"]
    """x a, mean(x) a, bias - mean(x) a."""
    gain: Node | None
    bias: Node | None = None


Form = (
    LinearForm
    | MeanForm
    | SquareForm
    | PowerForm
    | TanhForm
    | NormForm
    | GainedForm
    | ScaleShiftTerm
)


def uncast_value(node: Node) -> Node:
    """Return `node` before casts and copies: the normalised value in its original dtype."""
    while node.parents and (node.op in CASTS or preserves_layout(node)):
        node = node.parents[0]
    return node


def preserves_layout(node: Node) -> bool:
    """Whether a view keeps shape and order of axes, as those that einsum inserts do."""
    if node.op == "permute":
        return list(node.args[1]) == list(range(len(node.shape)))
    return node.op in RESHAPES and node.shape == node.parents[0].shape


def linear_form(node: Node) -> LinearForm | None:
    """The linear form of a value; every data tensor is that of itself unless it is a statistic."""
    form = node.form
    if isinstance(form, LinearForm):
        return form
    if isinstance(form, (PowerForm, SquareForm, ScaleShiftTerm)):
        return None
    if isinstance(form, MeanForm) and _is_mean_of_features(node, form):
        return None  # over other axes the mean itself may be normalised: pooled tokens
    if isinstance(form, GainedForm) and isinstance(form.form, PowerForm):
        return None
    return LinearForm(uncast_value(node)) if node.is_data and node.is_floating else None


def _is_mean_of_features(node: Node, form: MeanForm) -> bool:
    """Whether a mean may be one number per token: of x.mean((-2, -1)) the last axis is another."""
    return -1 in form.axes and (len(form.axes) == 1 or len(node.shape) == len(form.source.shape))


def operand_form(operand: Any) -> Form | None:
    """The form of an operand; linear where nothing more is known."""
    if not isinstance(operand, Node):
        return None
    form: Form | None = operand.form
    return form if form is not None else linear_form(operand)


def scalar_value(operand: Any) -> float | None:
    """A numeric operand as a float, else None."""
    if isinstance(operand, bool) or not isinstance(operand, (int, float)):
        return None
    return float(operand)


def split_scale(node: Node) -> tuple[Node, float]:
    """Split `node` into an earlier value and the constant that multiplies it."""
    if node.op in ("mul", "div") and len(node.parents) == 1:
        times = scalar_value(node.args[1])
        if times:
            return uncast_value(node.parents[0]), times if node.op == "mul" else 1.0 / times
    return node, 1.0


def reduced_axes(node: Node, dims: Any) -> tuple[int, ...]:
    """Reduced axes, counted from the end; all axes where `dims` names none."""
    rank = len(node.shape)
    if dims is None or dims == []:
        dims = range(rank)
    if isinstance(dims, int):
        dims = (dims,)
    return tuple(sorted(d if d < 0 else d - rank for d in dims))


def reduced_count(node: Node, axes: tuple[int, ...]) -> int:
    """Number of elements in one reduction."""
    count = 1
    for axis in axes:
        count *= node.shape[axis]
    return count


def norm_parameter_names(norms: list[DetectedNorm]) -> set[str]:
    """Names of the parameters that the gains and biases derive from."""
    names: set[str] = set()
    stack = [p for n in norms for p in (*n.gains, *n.biases) if isinstance(p, Node)]
    while stack:
        node = stack.pop()
        if node.name is not None:
            names.add(node.name)
        stack.extend(node.parents)
    return names
