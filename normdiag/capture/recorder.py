"""A dispatch mode that records every operation of a forward as a graph and keeps no tensor."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from normdiag.capture.declared import DECLARED
from normdiag.capture.expansion import EXPANSIONS, OperationCall, expand_declared
from normdiag.capture.identity import TensorIdentity
from normdiag.capture.nested_values import refuse_nested_value
from normdiag.capture.operation_schema import OperationSchema, parse_schema
from normdiag.capture.scopes import Scopes
from normdiag.errors import NormdiagError, RunError
from normdiag.graph import Frame, Graph, Node

FACTORIES = frozenset(
    {
        "zeros_like", "ones_like", "full_like", "empty_like", "rand_like", "randn_like",
        "new_zeros", "new_ones", "new_full", "new_empty", "new_empty_strided", "randint_like",
    }
)  # fmt: skip
"""Operations whose result does not depend on the values of their operand."""


class OperationObserver(Protocol):
    """Called with every new node and the live tensors; must keep none of the large ones."""

    def needs_operand_copy(self, op: str, args: tuple[Any, ...]) -> bool:
        """Whether to copy an operand that the operation is about to overwrite."""

    def observe_operation(self, node: Node, args: tuple[Any, ...], output: torch.Tensor) -> None:
        """Observe the operation that computed `output`, the value of `node`, from `args`."""


class Recorder(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Records one forward of `model` into `graph`."""

    def __init__(self, model: nn.Module, scopes: Scopes, observer: OperationObserver) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.graph = Graph()
        self._identity = TensorIdentity()
        self._scopes = scopes
        self._observer = observer
        self._operations: dict[Any, OperationSchema] = {}
        self._is_paused = False
        self._weights: dict[str, Node] = {}
        for name, tensor in model.named_parameters():
            self._bind_leaf("parameter", name, tensor)
        for name, buffer in model.named_buffers():
            self._bind_leaf("buffer", name, buffer)

    def _bind_leaf(self, op: str, name: str, tensor: torch.Tensor) -> None:
        node = self._create_leaf(op, tensor, self._scopes.current_frame, name)
        self._weights[name] = node
        self._identity.bind_tensor(tensor, node)

    @contextmanager
    def pause_recording(self) -> Iterator[None]:
        """Run operations that are no part of the model's computation, and record none."""
        self._is_paused = True
        try:
            yield
        finally:
            self._is_paused = False

    def rebind_weight(self, name: str, tensor: torch.Tensor) -> None:
        """Let `tensor` be the parameter or buffer `name`: it was loaded for its module."""
        node = self._weights.get(name)
        if node is None:
            self._bind_leaf("parameter", name, tensor)
        else:
            self._identity.bind_tensor(tensor, node)

    def rebind_copy(self, original: torch.Tensor, copy: torch.Tensor) -> None:
        """Let `copy`, of `original` on another device, be the same value."""
        node = self._identity.find_node(original)
        if node is not None:
            self._identity.bind_tensor(copy, node)

    def bind_inputs(self, inputs: Iterable[tuple[str, torch.Tensor]]) -> None:
        """Mark the model's inputs: every value that derives from them is data."""
        for name, tensor in inputs:
            node = self._create_leaf("input", tensor, self._scopes.current_frame, name)
            node.is_data = True
            node.origins = 1 << len(self.graph.inputs)
            self.graph.inputs.append(name)
            self._identity.bind_tensor(tensor, node)

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if self._is_paused:
            return func(*args, **kwargs)
        operation = self._operations.get(func)
        if operation is None:
            operation = self._operations[func] = parse_schema(func)
        if operation.is_composite and operation.qualified not in DECLARED:
            with self:
                return func.decompose(*args, **kwargs)
        before = self._copy_overwritten_operands(operation, args)
        parents: list[Node] = []
        node_args = tuple([self._replace_tensors(a, parents) for a in args])
        node_kwargs = {k: self._replace_tensors(v, parents) for k, v in kwargs.items()}
        result = func(*args, **kwargs)
        if operation.name in FACTORIES:  # only the shape of the operand counts
            parents, node_args = [], ()
        producer = _Producer(operation, node_args, node_kwargs, tuple(parents))
        try:
            results = self._collect_results(producer, args, kwargs, result)
            if not self._record_expansion(producer, before, kwargs, results):
                self._record_results(producer, before, results)
        except RunError:
            raise
        except Exception as error:  # ours, not the model's: it must not look like the model's
            raise NormdiagError(
                f"reading the operation {operation.name} failed: {type(error).__name__}: {error}"
            ) from error
        return result

    def _copy_overwritten_operands(
        self, operation: OperationSchema, args: tuple[Any, ...]
    ) -> tuple[Any, ...]:
        """The arguments, with copies of those that are observed and overwritten."""
        if not operation.writes:
            return args
        if operation.qualified in DECLARED:
            copied = {i for i in operation.writes if i < len(args)}
        elif self._observer.needs_operand_copy(operation.name, args):
            copied = {0}
        else:
            return args
        return tuple(
            a.clone() if i in copied and isinstance(a, torch.Tensor) else a
            for i, a in enumerate(args)
        )

    def _collect_results(
        self, producer: _Producer, args: tuple[Any, ...], kwargs: Any, result: Any
    ) -> tuple[_OperationResult, ...]:
        """The tensors that the operation returned, then those that it only wrote."""
        operation = producer.operation
        written = [args[i] for i in operation.writes if i < len(args)]
        if operation.writes_out:
            written += [v for k, v in kwargs.items() if k.startswith("out")]
        if isinstance(result, torch.Tensor):  # in place: it returns what it wrote
            return (_OperationResult(result, bool(written)),)
        returned = result if isinstance(result, (tuple, list)) else ()
        written_ids = {id(t) for t in written}
        results = [_OperationResult(t, id(t) in written_ids) for t in returned]
        returned_ids = {id(t) for t in returned}
        return (
            *results,
            *(_OperationResult(t, True) for t in written if id(t) not in returned_ids),
        )

    def _record_expansion(
        self,
        producer: _Producer,
        args: tuple[Any, ...],
        kwargs: Any,
        results: Sequence[_OperationResult],
    ) -> bool:
        """Record the operation as several; False where it is a single one."""
        operation = producer.operation
        expand = EXPANSIONS.get(operation.name)
        declared = DECLARED.get(operation.qualified)
        if declared is None and (expand is None or operation.writes or operation.writes_out):
            return False
        omitted = operation.defaults[len(args) :]
        call = OperationCall(
            operation.name,
            (*producer.args, *omitted),
            (*args, *omitted),
            kwargs,
            tuple(r.tensor for r in results),
        )
        written = {id(r.tensor) for r in results if r.is_written}

        def emit(
            op: str, nodes: tuple[Any, ...], values: tuple[Any, ...], result: torch.Tensor
        ) -> Node:
            parents = tuple(n for n in nodes if isinstance(n, Node))
            part = _Producer(OperationSchema(op), nodes, {}, parents)
            return self._add_node(part, 0, values, _OperationResult(result, id(result) in written))

        if declared is None:
            return expand is not None and expand(call, emit)
        explained = expand_declared(call, declared.add, declared.norm, emit)
        rest = [r for i, r in enumerate(results) if i not in explained]
        self._record_results(producer, args, rest)
        return True

    def _record_results(
        self, producer: _Producer, args: tuple[Any, ...], results: Sequence[_OperationResult]
    ) -> None:
        for i, result in enumerate(results):
            if isinstance(result.tensor, torch.Tensor):
                self._add_node(producer, i, args, result)

    def _add_node(
        self, producer: _Producer, output: int, args: tuple[Any, ...], result: _OperationResult
    ) -> Node:
        """Create the node of a tensor that was computed or written, and have it observed."""
        tensor = result.tensor
        before = self._identity.find_storage_node(tensor) if result.is_written else None
        node = self._create_node(producer, output, tensor)
        if not result.is_written:
            self._identity.bind_tensor(tensor, node)
        elif self._identity.record_write(tensor, node) and before is not None:
            producer = _Producer(OperationSchema("write"), (before, node), {}, (before, node))
            whole = self._create_node(producer, 0, tensor)
            whole.shape = before.shape
            self._identity.record_storage_write(tensor, whole)
        self._observer.observe_operation(node, args, tensor)
        return node

    def _create_node(self, producer: _Producer, output: int, tensor: torch.Tensor) -> Node:
        is_data, origins = False, 0
        for parent in producer.parents:
            is_data = is_data or parent.is_data
            origins |= parent.origins
        is_data = is_data or _is_learned_tokens(producer, tensor)
        name, frame = producer.operation.name, self._scopes.current_frame
        refuse_nested_value(tensor, name, frame.path, is_data=is_data)
        node = Node(
            index=len(self.graph.nodes),
            op=name,
            args=producer.args,
            kwargs=producer.kwargs,
            parents=producer.parents,
            shape=tuple(tensor.shape),
            dtype=str(tensor.dtype).removeprefix("torch."),
            frame=frame,
            is_data=is_data,
            origins=origins,
            output=output,
            is_floating=tensor.is_floating_point() or tensor.is_complex(),
            is_pointwise=producer.operation.is_pointwise,
        )
        self.graph.nodes.append(node)
        return node

    def _create_leaf(self, op: str, tensor: torch.Tensor, frame: Frame, name: str | None) -> Node:
        producer = _Producer(OperationSchema(op), (), {}, ())
        node = self._create_node(producer, 0, tensor)
        node.frame, node.name = frame, name
        return node

    def _replace_tensors(self, value: Any, parents: list[Node]) -> Any:
        """`value` with nodes in place of tensors; the nodes are added to `parents`."""
        if isinstance(value, torch.Tensor):
            node = self._identity.find_node(value)
            if node is None:
                node = self._create_leaf("constant", value, self._scopes.current_frame, None)
                self._identity.bind_tensor(value, node)
            parents.append(node)
            return node
        if isinstance(value, (list, tuple)):
            return [self._replace_tensors(item, parents) for item in value]
        return value


def _is_learned_tokens(producer: _Producer, tensor: torch.Tensor) -> bool:
    """Whether learned vectors (queries, latents) are copied per sequence: they become data."""
    return (
        producer.operation.name in ("expand", "repeat")
        and tensor.dim() >= 3
        and tensor.is_floating_point()
        and tensor.shape[-1] > 1
        and any(not p.is_data and p.op != "constant" for p in producer.parents)
    )


@dataclass(frozen=True, slots=True)
class _OperationResult:
    tensor: torch.Tensor
    is_written: bool
    """Written in place, not a new tensor."""


@dataclass(frozen=True, slots=True)
class _Producer:
    operation: OperationSchema
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    parents: tuple[Node, ...]
