"""Declarations of the residual adds and norms that custom operations compute.

A kernel that adds a branch to the stream, or normalises, is one opaque operation to a dispatch
mode. Declared, it is recorded as an addition and a norm. Declarations last as long as the process
and are read when a forward is recorded.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from normdiag.errors import UsageError

DeclaredKind = Literal["layernorm", "rmsnorm"]


@dataclass(frozen=True, slots=True)
class DeclaredAdd:
    """Argument `skip` plus argument `branch` is result `output`."""

    skip: int
    branch: int
    output: int | None


@dataclass(frozen=True, slots=True)
class DeclaredNorm:
    """Argument `x` over its last axis, normalised, is result `output`."""

    kind: DeclaredKind
    x: int | None
    gain: int | None
    bias: int | None
    eps: int | float
    output: int


@dataclass(slots=True)
class Declaration:
    """The residual add and the norm that one operation computes."""

    add: DeclaredAdd | None = None
    norm: DeclaredNorm | None = None


DECLARED: dict[str, Declaration] = {}
"""By the operation's name without its overload ("ns::op")."""


def declare_residual_add(
    op: str, *, skip: int = 0, branch: int = 1, output: int | None = 0
) -> None:
    """Declare that a custom operation adds a branch to the stream.

    Args:
        op: the operation's name, "namespace::name".
        skip: position of the argument x that is carried on.
        branch: position of the argument u that is added.
        output: which of the results is x + u (of an operation that writes in place: which of the
            arguments that it writes). None: the sum is not returned, only its norm is.

    Raises:
        UsageError: `op` is no qualified name, or a position is negative.
    """
    declared = _find_declaration(op, skip=skip, branch=branch, output=output)
    declared.add = DeclaredAdd(skip, branch, output)


def declare_norm(
    op: str,
    *,
    kind: DeclaredKind,
    x: int | None = 0,
    gain: int | None = None,
    bias: int | None = None,
    eps: int | float = 0.0,
    output: int = 0,
) -> None:
    """Declare that a custom operation normalises its argument over the last axis.

    Args:
        op: the operation's name, "namespace::name".
        kind: "layernorm": gain (x - mean) / sqrt(var + eps) + bias; "rmsnorm": gain x /
            sqrt(mean(x^2) + eps) + bias.
        x: position of the argument that is normalised. None: the sum that the same operation is
            declared to compute (`declare_residual_add`).
        gain: position of the gain, None without one.
        bias: position of the bias, None without one.
        eps: position of epsilon (an int), or its value (a float).
        output: which of the results is the normalised value.

    Raises:
        UsageError: `op` is no qualified name, a position is negative, or the kind is unknown.
    """
    if kind not in ("layernorm", "rmsnorm"):
        raise UsageError(
            f"an operation cannot be declared as a norm of the kind {kind!r}",
            'declare "layernorm" or "rmsnorm"',
        )
    place = eps if isinstance(eps, int) else None
    declared = _find_declaration(op, x=x, gain=gain, bias=bias, eps=place, output=output)
    declared.norm = DeclaredNorm(kind, x, gain, bias, eps, output)


def _find_declaration(op: str, **positions: int | None) -> Declaration:
    if op.count("::") != 1:
        raise UsageError(
            f"{op!r} is not the name of an operation",
            'name it as its library does: "namespace::name", without an overload',
        )
    for name, position in positions.items():
        if position is not None and position < 0:
            raise UsageError(f"{name}={position} of {op} is no position", "positions count from 0")
    return DECLARED.setdefault(op, Declaration())
