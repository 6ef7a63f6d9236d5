"""The statistic that scales x, read from its operations: what it is, and its degree in x."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import isclose

from normdiag.graph import Node
from normdiag.structure.algebraic_forms import PowerForm, scalar_value
from normdiag.structure.aten_operations import CASTS, PARTS, VIEWS, part_axis

_SEARCHED = 64
"""Operations that a statistic may consist of."""
_REDUCTIONS = {
    "mean": "mean",
    "sum": "sum",
    "amax": "largest value",
    "max": "largest value",
    "amin": "smallest value",
    "min": "smallest value",
    "median": "median",
    "var": "variance",
    "var_mean": "variance",
    "std": "standard deviation",
    "std_mean": "standard deviation",
    "linalg_vector_norm": "length",
    "norm": "length",
    "linalg_norm": "length",
}
_ROOTS = {
    "variance": "standard deviation",
    "mean square": "root mean square",
    "sum of squares": "length",
}


@dataclass(frozen=True, slots=True)
class ScalingStatistic:
    """y = z s or z / s, with s a function of a statistic of x."""

    scale: Node
    """s."""
    name: str
    """In words: "divided by the standard deviation of x"."""
    degree: float | None
    """p of y(a x) = a^p y(x), constants such as epsilon apart: 0 for a norm; None if unknown."""
    features: tuple[int, int] | None = None
    """The half-open range of the features that s is of, where it is of a part."""


@dataclass(slots=True)
class _StatisticReader:
    """Walks back from s to x and collects what is on the way."""

    values: set[Node]
    degrees: dict[Node, float | None] = field(default_factory=dict)
    """Of every operation between x and s, those near s first."""

    def read_degree(self, node: Node) -> float | None:
        """The degree of `node` in x. Raises ValueError where it is no function of x alone."""
        if node in self.values:
            return 1.0
        if not node.is_data:
            if max(node.shape, default=1) > 1:
                raise ValueError("a vector of constants or weights")
            return 0.0
        if node not in self.degrees:
            rule = _DEGREES.get(node.op)
            if rule is None or _is_bounded_above(node) or len(self.degrees) >= _SEARCHED:
                raise ValueError(f"{node.op} is no part of a statistic")
            self.degrees[node] = None
            degrees = [self.read_degree(parent) for parent in node.parents]
            known = [degree for degree in degrees if degree is not None]
            is_known = bool(known) and len(known) == len(degrees)
            self.degrees[node] = rule(node, known) if is_known else None
        return self.degrees[node]


def read_statistic(scale: Node, values: set[Node], *, is_division: bool) -> ScalingStatistic | None:
    """Read `scale` as a function of a statistic of `values`, which are multiples of each other.

    It consists of reductions and of functions without weights; None where it is another thing, or
    where it does not depend on the size of x.
    """
    reader = _StatisticReader(values)
    try:
        degree = reader.read_degree(scale)
    except ValueError:
        return None
    base = _find_base(reader)
    if base is None or degree == 0:
        return None
    statistic, of_base = base
    factor = None if degree is None else -degree if is_division else degree
    name = _describe_power(statistic, None if factor is None else factor / of_base)
    features = _selected_features(reader)
    if features is not None:
        name += f", of features {features[0]} to {features[1] - 1}"
    return ScalingStatistic(scale, name, None if factor is None else 1 + factor, features)


def _find_base(reader: _StatisticReader) -> tuple[str, float] | None:
    """The statistic that is nearest to s, and its degree."""
    for node in reader.degrees:
        if isinstance(node.form, PowerForm):
            is_sum = isclose(node.form.scale, node.form.count, rel_tol=1e-6)
            if node.form.is_centred:
                return "variance", 2.0
            return "sum of squares" if is_sum and node.form.count > 1 else "mean square", 2.0
        if node.op in _REDUCTIONS:
            return _name_reduction(node), 2.0 if node.op in ("var", "var_mean") else 1.0
    return None


def _name_reduction(node: Node) -> str:
    name, operand = _REDUCTIONS[node.op], node.parents[0]
    while operand.op in CASTS and operand.parents:
        operand = operand.parents[0]
    if name == "length":
        order = node.args[1] if len(node.args) > 1 else node.kwargs.get("ord", 2)
        return {1.0: "sum of |x|", float("inf"): "largest |x|"}.get(
            float(order), f"L{order} norm"
        ) if scalar_value(order) is not None else name  # fmt: skip
    if operand.op == "abs":
        return {"largest value": "largest |x|", "smallest value": "smallest |x|"}.get(
            name, f"{name} of |x|"
        )
    return name


def _describe_power(statistic: str, power: float | None) -> str:
    if power is None:
        return f"scaled by a function of its {statistic}"
    verb = "divided" if power < 0 else "multiplied"
    if abs(power) == 0.5 and statistic in _ROOTS:
        return f"{verb} by its {_ROOTS[statistic]}"
    if abs(power) == 0.5:
        return f"{verb} by the root of its {statistic}"
    suffix = "" if abs(power) == 1 else f" to the power {abs(power):g}"
    return f"{verb} by its {statistic}{suffix}"


def _selected_features(reader: _StatisticReader) -> tuple[int, int] | None:
    for node in reader.degrees:
        if node.op == "slice" and part_axis(node) == -1 and node.parents[0] in reader.values:
            start = int(node.args[2] or 0) if len(node.args) > 2 else 0
            width = node.parents[0].shape[-1]
            start = max(0, start + width if start < 0 else start)
            return start, start + node.shape[-1]
    return None


def _is_bounded_above(node: Node) -> bool:
    """Whether a maximum is imposed: a value that is clipped to a length is not scaled to it."""
    if node.op == "clamp":
        return (len(node.args) > 2 and node.args[2] is not None) or "max" in node.kwargs
    return node.op in ("clamp_max", "minimum")


def _keep_degree(node: Node, degrees: list[float]) -> float | None:
    """Of a linear function, and of a sum: constants, such as epsilon, count for nothing."""
    distinct = {degree for degree in degrees if degree != 0}
    return distinct.pop() if len(distinct) == 1 else (None if distinct else 0.0)


def _double_degree(node: Node, degrees: list[float]) -> float | None:
    return 2 * degrees[0]


def _raise_degree(node: Node, degrees: list[float]) -> float | None:
    exponent = scalar_value(node.args[1]) if len(node.args) > 1 else None
    return None if exponent is None else degrees[0] * exponent


def _add_degrees(node: Node, degrees: list[float]) -> float | None:
    return (
        sum(degrees) if len(node.args) < 2 or node.args[0] is not node.args[1] else 2 * degrees[0]
    )


def _subtract_degrees(node: Node, degrees: list[float]) -> float | None:
    if len(degrees) == 2:
        return degrees[0] - degrees[1]
    return degrees[0] if isinstance(node.args[0], Node) else -degrees[0]


_DEGREES: dict[str, Callable[[Node, list[float]], float | None]] = {
    **dict.fromkeys(
        (
            *CASTS, *VIEWS, *PARTS, *_REDUCTIONS, "abs", "neg", "add", "sub", "rsub", "relu",
            "clamp", "clamp_min", "maximum",
        ),
        _keep_degree,
    ),
    "var": _double_degree,
    "var_mean": _double_degree,
    "square": _double_degree,
    "pow": _raise_degree,
    "sqrt": lambda _, degrees: degrees[0] / 2,
    "rsqrt": lambda _, degrees: -degrees[0] / 2,
    "reciprocal": lambda _, degrees: -degrees[0],
    "mul": _add_degrees,
    "div": _subtract_degrees,
}  # fmt: skip
