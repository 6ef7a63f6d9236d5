"""Operations that do several things at once, recorded as several operations.

`addmm(x, h, W)` is x + h W, a sum over a stack is a chain of additions, and a declared kernel
is the add and the norm that it was declared to compute. The values of the model are used as they
are; only intermediate values are computed once more, to be measured.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import torch

from normdiag.capture.declared import DeclaredAdd, DeclaredNorm
from normdiag.errors import NormdiagError
from normdiag.graph import Node


@dataclass(frozen=True, slots=True)
class OperationCall:
    """One finished call of an operation."""

    name: str
    nodes: tuple[Any, ...]
    """The arguments with nodes in place of tensors."""
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    results: tuple[Any, ...]


class EmitOperation(Protocol):
    """Records one operation: its arguments as nodes and as values, and its result."""

    def __call__(
        self, op: str, nodes: tuple[Any, ...], values: tuple[Any, ...], result: torch.Tensor
    ) -> Node: ...


def _expand_added_product(call: OperationCall, emit: EmitOperation) -> bool:
    """beta x + alpha A B with x an activation."""
    x, a, b = call.nodes[:3]
    result = call.results[0]
    is_plain = call.kwargs.get("beta", 1) == 1
    if not (isinstance(x, Node) and x.is_data and x.shape == tuple(result.shape) and is_plain):
        return False
    product = torch.matmul(call.args[1], call.args[2]) * call.kwargs.get("alpha", 1)
    op = "mm" if call.name == "addmm" else "bmm"
    branch = emit(op, (a, b), call.args[1:3], product)
    emit("add", (x, branch), (call.args[0], product), result)
    return True


def _expand_summed_stack(call: OperationCall, emit: EmitOperation) -> bool:
    """stack([x, u, ..]).sum(0), of a handful of terms."""
    stack = call.nodes[0]
    if not isinstance(stack, Node) or stack.op not in ("stack", "cat") or len(call.nodes) < 2:
        return False
    rank = len(stack.shape)
    axis = int(stack.args[1] if len(stack.args) > 1 else stack.kwargs.get("dim", 0)) % rank
    dims, terms = call.nodes[1], _stacked_terms(stack, axis)
    is_axis = isinstance(dims, list) and [d % rank for d in dims] == [axis]
    keeps = call.args[2] if len(call.args) > 2 else call.kwargs.get("keepdim", False)
    if not is_axis or keeps or not 2 <= len(terms) <= _MOST_TERMS:
        return False
    values = call.args[0].unbind(axis)
    total, sum_so_far = terms[0], values[0]
    for i, (term, value) in enumerate(zip(terms[1:], values[1:], strict=True)):
        is_last = i == len(terms) - 2
        after = call.results[0] if is_last else sum_so_far + value
        total = emit("add", (total, term), (sum_so_far, value), after)
        sum_so_far = after
    return True


def _stacked_terms(stack: Node, axis: int) -> list[Node]:
    """The stacked terms; a stack may be a concatenation along an axis that each term got before."""
    terms: list[Node] = list(stack.args[0])
    if stack.op == "stack":
        return terms
    unsqueezed = [_operand_before_cast(t) for t in terms]
    is_stack = all(t.op == "unsqueeze" and t.shape[axis] == 1 for t in unsqueezed)
    return [t.parents[0] for t in unsqueezed] if is_stack else []


def _operand_before_cast(node: Node) -> Node:
    return node.parents[0] if node.op == "_to_copy" else node


_MOST_TERMS = 4
EXPANSIONS: dict[str, Callable[[OperationCall, EmitOperation], bool]] = {
    "addmm": _expand_added_product,
    "baddbmm": _expand_added_product,
    "sum": _expand_summed_stack,
}


def expand_declared(
    call: OperationCall, add: DeclaredAdd | None, norm: DeclaredNorm | None, emit: EmitOperation
) -> set[int]:
    """Record the declared add and norm. Returns which results of the operation they explain."""
    explained: set[int] = set()
    total: tuple[Node, torch.Tensor] | None = None
    if add is not None:
        (x, x_value), (u, u_value) = (_read_argument(call, i) for i in (add.skip, add.branch))
        if add.output is None:
            result = x_value + u_value
        else:
            result = _read_result(call, add.output)
            explained.add(add.output)
        total = emit("add", (x, u), (x_value, u_value), result), result
    if norm is not None:
        _emit_declared_norm(call, norm, total, emit)
        explained.add(norm.output)
    return explained


def _emit_declared_norm(
    call: OperationCall,
    norm: DeclaredNorm,
    total: tuple[Node, torch.Tensor] | None,
    emit: EmitOperation,
) -> None:
    if norm.x is None and total is None:
        raise NormdiagError(
            f"{call.name} is declared to normalise a sum that it computes, and no sum is declared",
            "declare it with normdiag.declare_residual_add as well, or name x",
        )
    x, value = total if norm.x is None and total is not None else _read_argument(call, norm.x or 0)
    gain, bias = (
        (None, None) if i is None else _read_argument(call, i) for i in (norm.gain, norm.bias)
    )
    eps = _read_argument(call, norm.eps)[1] if isinstance(norm.eps, int) else norm.eps
    shape = [value.shape[-1]]
    op, operands = "declared_layer_norm", (gain, bias)
    if norm.kind == "rmsnorm":
        op = "declared_rms_norm"
    nodes = (x, shape, *(n for n, _ in operands), eps)
    values = (value, shape, *(v for _, v in operands), eps)
    emit(op, nodes, values, _read_result(call, norm.output))


def _read_argument(call: OperationCall, position: int) -> tuple[Any, Any]:
    """An argument as its node and its value."""
    if position >= len(call.args):
        raise NormdiagError(
            f"{call.name} was called with {len(call.args)} arguments, and argument {position} "
            "is declared",
            "positions count from 0 and are those of the operation's schema",
        )
    return call.nodes[position], call.args[position]


def _read_result(call: OperationCall, position: int) -> torch.Tensor:
    result = call.results[position] if position < len(call.results) else None
    if not isinstance(result, torch.Tensor):
        raise NormdiagError(
            f"result {position} of {call.name} is declared, and the operation returns "
            f"{len(call.results)}",
            "results count from 0; of an operation that writes in place they are the arguments "
            "that it writes",
        )
    return result
