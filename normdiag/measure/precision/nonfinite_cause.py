"""Why an operation's result is not finite, from the operands at the elements in question."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

from normdiag.evidence.nonfinite import NonFiniteCause, NonFiniteKind
from normdiag.evidence.number_formats import NUMBER_FORMATS
from normdiag.graph import Node

_EXACT_KEYWORDS = frozenset({"alpha", "beta", "rounding_mode", "dim", "keepdim"})

_EXACT: dict[str, Callable[..., torch.Tensor]] = {
    "add": torch.add,
    "sub": torch.sub,
    "rsub": torch.rsub,
    "mul": torch.mul,
    "div": torch.div,
    "reciprocal": torch.reciprocal,
    "sqrt": torch.sqrt,
    "rsqrt": torch.rsqrt,
    "pow": torch.pow,
    "square": torch.square,
    "exp": torch.exp,
    "exp2": torch.exp2,
    "expm1": torch.expm1,
    "log": torch.log,
    "log2": torch.log2,
    "log10": torch.log10,
    "sum": torch.sum,
    "mean": torch.mean,
    "mm": torch.mm,
    "bmm": torch.bmm,
    "addmm": torch.addmm,
    "baddbmm": torch.baddbmm,
    "_to_copy": torch.clone,
    "_softmax": lambda x, dim, _: torch.softmax(x, dim),
}
"""Operations that are repeated in float64, by name."""

_SEVERAL_STEPS = frozenset({"sum", "mean", "mm", "bmm", "addmm", "baddbmm"})
"""Sums, whose partial sums can pass a format that holds their result."""

EXPLAINED_OPERATIONS = frozenset(_EXACT)
"""The names of the operations for which `explain_nonfinite` looks for a cause."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """The cause, and the largest finite |result| in float64 among the elements that were lost."""

    cause: NonFiniteCause | None
    exact_max: float | None


def explain_nonfinite(node: Node, args: tuple[Any, ...], output: torch.Tensor) -> Explanation:
    """The cause of the NaN and infinities of `output`, which `node` computed from `args`.

    The operation is repeated in float64 on the same operands. Where that result lies beyond the
    largest number of the output's format, it overflowed. Otherwise the operands at the elements
    that are not finite decide: 0 / 0, x / 0, a root or logarithm of a value that has none, 0 * inf,
    inf - inf, inf / inf, a softmax over nothing but -inf. The most frequent cause is returned; none
    where the operation is not among `EXPLAINED_OPERATIONS`, or a NaN or an infinity was stored or
    passed in.
    """
    repeat = _EXACT.get(node.op)
    if repeat is None or _has_broken_leaf(node, args):
        return Explanation(None, None)
    wide = [_widen_tensor(a) for a in args]
    keywords = {k: v for k, v in node.kwargs.items() if k in _EXACT_KEYWORDS}
    exact = repeat(*(wide[:1] if node.op == "_to_copy" else wide), **keywords)
    if exact.shape != output.shape:
        return Explanation(None, None)
    lost = ~output.isfinite()
    values = exact[lost & exact.isfinite()].abs()
    return Explanation(
        _choose_cause(node, wide, exact, lost), float(values.max()) if values.numel() else None
    )


def _choose_cause(
    node: Node, wide: list[Any], exact: torch.Tensor, lost: torch.Tensor
) -> NonFiniteCause | None:
    """The cause of most of the lost elements; a pole is none of the overflows."""
    causes: list[tuple[NonFiniteKind, torch.Tensor]]
    causes = list(_mark_softmax(wide) if node.op == "_softmax" else _mark_elements(node.op, wide))
    rest = lost.clone()
    for _, where in causes:
        rest &= ~where
    is_finite = all(bool(a.isfinite().all()) for a in wide if isinstance(a, torch.Tensor))
    number_format = NUMBER_FORMATS.get(node.dtype)
    if is_finite and number_format is not None:
        beyond = exact.abs() > number_format.largest
        causes.append(("overflow", rest & beyond))
        if node.op in _SEVERAL_STEPS:
            causes.append(("partial-sum-overflow", rest & ~beyond & ~exact.isnan()))
    counted = [
        NonFiniteCause(kind=kind, elements=int((lost & where).sum())) for kind, where in causes
    ]
    most = max(counted, key=lambda cause: cause.elements, default=None)
    return most if most is not None and most.elements else None


def _has_broken_leaf(node: Node, args: tuple[Any, ...]) -> bool:
    """Whether an operand that no operation computed holds a value that is not finite."""
    return any(
        isinstance(n, Node) and not n.parents and not bool(_widen_tensor(a).isfinite().all())
        for n, a in zip(node.args, args, strict=False)
        if isinstance(a, torch.Tensor)
    )


def _widen_tensor(value: Any) -> Any:
    if isinstance(value, torch.Tensor) and value.is_floating_point():
        return value.detach().double()
    return value


def _mark_softmax(wide: list[Any]) -> Iterator[tuple[NonFiniteKind, torch.Tensor]]:
    x, dim = wide[0], wide[1]
    yield "masked-row", (x == -torch.inf).all(dim, keepdim=True).expand_as(x)


def _mark_elements(op: str, wide: list[Any]) -> Iterator[tuple[NonFiniteKind, torch.Tensor]]:
    """The elements whose operands have no finite result, by kind."""
    operands = [torch.as_tensor(a).double() for a in wide[:2] if _is_numeric(a)]
    if op in ("div", "reciprocal"):
        above, below = operands if op == "div" else (torch.ones(()).double(), operands[0])
        yield "zero-by-zero", (above == 0) & (below == 0)
        yield "division-by-zero", (above != 0) & (below == 0)
        yield "infinity-by-infinity", above.isinf() & below.isinf()
    elif op in ("sqrt", "rsqrt"):
        yield "negative-root", operands[0] < 0
        if op == "rsqrt":
            yield "division-by-zero-root", operands[0] == 0
    elif op == "pow" and len(operands) == 2:
        base, exponent = operands
        yield "division-by-zero", (base == 0) & (exponent < 0)
        yield "negative-root", (base < 0) & (exponent != exponent.round())
    elif op in ("log", "log2", "log10"):
        yield "negative-logarithm", operands[0] < 0
        yield "logarithm-of-zero", operands[0] == 0
    elif op == "mul" and len(operands) == 2:
        a, b = operands
        yield "zero-times-infinity", ((a == 0) & b.isinf()) | (a.isinf() & (b == 0))
    elif op in ("add", "sub", "rsub") and len(operands) == 2:
        a, b = operands
        yield "infinite-difference", a.isinf() & (a == (-b if op == "add" else b))


def _is_numeric(value: Any) -> bool:
    return isinstance(value, (torch.Tensor, int, float)) and not isinstance(value, bool)
