"""The forward as a graph: a dispatch mode that sees every operation and keeps no tensor."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from normdiag.capture.declared import DECLARED
from normdiag.capture.expansion import EXPANSIONS, Call, expand_declared
from normdiag.capture.identity import Identity
from normdiag.capture.scopes import Scopes
from normdiag.errors import NormdiagError
from normdiag.graph import Frame, Graph, Node

FACTORIES = frozenset(
    {
        "zeros_like", "ones_like", "full_like", "empty_like", "rand_like", "randn_like",
        "new_zeros", "new_ones", "new_full", "new_empty", "new_empty_strided", "randint_like",
    }
)  # fmt: skip
"""Operations whose result holds nothing of their operand."""


ALIASES = {
    "multiply": "mul", "divide": "div", "true_divide": "div", "subtract": "sub", "concat": "cat",
    "concatenate": "cat", "clip": "clamp", "linalg_matmul": "matmul", "negative": "neg",
    "moveaxis": "movedim", "swapdims": "transpose", "swapaxes": "transpose", "ger": "outer",
}  # fmt: skip
"""Second names of operations. Only inference mode shows them: elsewhere torch has resolved them."""


class Observer(Protocol):
    """Is shown every new node with the live tensors, and must keep none of the large ones."""

    def wants_operand(self, op: str, args: tuple[Any, ...]) -> bool:
        """Whether to keep a copy of an operand that the operation is about to overwrite."""

    def seen(self, node: Node, args: tuple[Any, ...], output: torch.Tensor) -> None:
        """`node` was made from `args` (the operation's own, tensors included)."""


@dataclass(frozen=True, slots=True)
class _Operation:
    """What an overload's schema says, read once."""

    name: str
    writes: tuple[int, ...]
    writes_out: bool
    qualified: str = ""
    """The name with its namespace, as it may be declared."""
    defaults: tuple[Any, ...] = ()


def _read(func: Any) -> _Operation:
    schema = func._schema
    name = schema.name.split("::", 1)
    base = name[1] if name[0] == "aten" else schema.name
    writes = tuple(
        i
        for i, argument in enumerate(schema.arguments)
        if argument.alias_info is not None
        and argument.alias_info.is_write
        and not argument.kwarg_only
    )
    out = any(
        a.alias_info is not None and a.alias_info.is_write and a.kwarg_only
        for a in schema.arguments
    )
    if writes and base.endswith("_") and not base.endswith("__"):
        base = base[:-1]
    base = ALIASES.get(base, base)
    defaults = tuple(a.default_value for a in schema.arguments if not a.kwarg_only)
    return _Operation(base, writes, out, schema.name, defaults)


class Recorder(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Records one forward of `model` into `graph`."""

    def __init__(self, model: nn.Module, scopes: Scopes, observer: Observer) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.graph = Graph()
        self._identity = Identity()
        self._scopes = scopes
        self._observer = observer
        self._operations: dict[Any, _Operation] = {}
        root = scopes.current
        for name, tensor in model.named_parameters():
            self._identity.bind(tensor, self._leaf("parameter", tensor, root, name))
        for name, buffer in model.named_buffers():
            self._identity.bind(buffer, self._leaf("buffer", buffer, root, name))

    def bind_inputs(self, inputs: Iterable[tuple[str, torch.Tensor]]) -> None:
        """Mark the model's inputs: what derives from them is data."""
        for name, tensor in inputs:
            node = self._leaf("input", tensor, self._scopes.current, name)
            node.is_data = True
            node.origins = 1 << len(self.graph.inputs)
            self.graph.inputs.append(name)
            self._identity.bind(tensor, node)

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        operation = self._operations.get(func)
        if operation is None:
            operation = self._operations[func] = _read(func)
        before = self._before(operation, args)
        parents: list[Node] = []
        node_args = tuple([self._noded(a, parents) for a in args])
        node_kwargs = {k: self._noded(v, parents) for k, v in kwargs.items()}
        result = func(*args, **kwargs)
        if operation.name in FACTORIES:  # only the shape of the operand counts
            parents, node_args = [], ()
        made = _Made(operation, node_args, node_kwargs, tuple(parents))
        try:
            results = self._results(made, args, kwargs, result)
            if not self._expanded(made, before, kwargs, results):
                self._record(made, before, results)
        except Exception as error:  # ours, not the model's: it must not look like the model's
            raise NormdiagError(
                f"reading the operation {operation.name} failed: {type(error).__name__}: {error}"
            ) from error
        return result

    def _before(self, operation: _Operation, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """The arguments, with copies of those that are to be measured and are overwritten."""
        if not operation.writes:
            return args
        if operation.qualified in DECLARED:
            kept = {i for i in operation.writes if i < len(args)}
        elif self._observer.wants_operand(operation.name, args):
            kept = {0}
        else:
            return args
        return tuple(
            a.clone() if i in kept and isinstance(a, torch.Tensor) else a
            for i, a in enumerate(args)
        )

    def _results(
        self, made: _Made, args: tuple[Any, ...], kwargs: Any, result: Any
    ) -> tuple[_Result, ...]:
        """The tensors that were made, then those that were only written."""
        operation = made.operation
        written = [args[i] for i in operation.writes if i < len(args)]
        if operation.writes_out:
            written += [v for k, v in kwargs.items() if k.startswith("out")]
        if isinstance(result, torch.Tensor):  # in place: what is given back is what was written
            return (_Result(result, bool(written)),)
        made_new = result if isinstance(result, (tuple, list)) else ()
        is_old = {id(t) for t in written}
        results = [_Result(t, id(t) in is_old) for t in made_new]
        seen = {id(t) for t in made_new}
        return (*results, *(_Result(t, True) for t in written if id(t) not in seen))

    def _expanded(
        self, made: _Made, args: tuple[Any, ...], kwargs: Any, results: tuple[_Result, ...]
    ) -> bool:
        """Whether the operation was recorded as several."""
        operation = made.operation
        expand = EXPANSIONS.get(operation.name)
        declared = DECLARED.get(operation.qualified)
        if declared is None and (expand is None or operation.writes or operation.writes_out):
            return False
        left_out = operation.defaults[len(args) :]
        call = Call(
            operation.name,
            (*made.args, *left_out),
            (*args, *left_out),
            kwargs,
            tuple(r.tensor for r in results),
        )
        written = {id(r.tensor) for r in results if r.is_written}

        def emit(
            op: str, nodes: tuple[Any, ...], values: tuple[Any, ...], result: torch.Tensor
        ) -> Node:
            parents = tuple(n for n in nodes if isinstance(n, Node))
            part = _Made(_Operation(op, (), False), nodes, {}, parents)
            return self._seen(part, 0, values, _Result(result, id(result) in written))

        if declared is None:
            return expand is not None and expand(call, emit)
        explained = expand_declared(call, declared.add, declared.norm, emit)
        rest = [r for i, r in enumerate(results) if i not in explained]
        self._record(made, args, rest)
        return True

    def _record(self, made: _Made, args: tuple[Any, ...], results: Sequence[_Result]) -> None:
        for i, result in enumerate(results):
            if isinstance(result.tensor, torch.Tensor):
                self._seen(made, i, args, result)

    def _seen(self, made: _Made, output: int, args: tuple[Any, ...], result: _Result) -> Node:
        """A new node for a tensor that was made or written, shown to the observer."""
        tensor = result.tensor
        before = self._identity.whole_of(tensor) if result.is_written else None
        node = self._node(made, output, tensor)
        if not result.is_written:
            self._identity.bind(tensor, node)
        elif self._identity.write(tensor, node) and before is not None:
            made = _Made(_Operation("write", (), False), (before, node), {}, (before, node))
            whole = self._node(made, 0, tensor)
            whole.shape = before.shape
            self._identity.write_whole(tensor, whole)
        self._observer.seen(node, args, tensor)
        return node

    def _node(self, made: _Made, output: int, tensor: torch.Tensor) -> Node:
        is_data, origins = False, 0
        for parent in made.parents:
            is_data = is_data or parent.is_data
            origins |= parent.origins
        is_data = is_data or _is_learned_tokens(made, tensor)
        node = Node(
            index=len(self.graph.nodes),
            op=made.operation.name,
            args=made.args,
            kwargs=made.kwargs,
            parents=made.parents,
            shape=tuple(tensor.shape),
            dtype=str(tensor.dtype).removeprefix("torch."),
            frame=self._scopes.current,
            is_data=is_data,
            origins=origins,
            output=output,
            is_floating=tensor.is_floating_point() or tensor.is_complex(),
        )
        self.graph.nodes.append(node)
        return node

    def _leaf(self, op: str, tensor: torch.Tensor, frame: Frame, name: str | None) -> Node:
        made = _Made(_Operation(op, (), False), (), {}, ())
        node = self._node(made, 0, tensor)
        node.frame, node.name = frame, name
        return node

    def _noded(self, value: Any, parents: list[Node]) -> Any:
        """`value` with nodes where tensors stand; the nodes are added to `parents`."""
        if isinstance(value, torch.Tensor):
            node = self._identity.node_of(value)
            if node is None:
                node = self._leaf("constant", value, self._scopes.current, None)
                self._identity.bind(value, node)
            parents.append(node)
            return node
        if isinstance(value, (list, tuple)):
            return [self._noded(item, parents) for item in value]
        return value


def _is_learned_tokens(made: _Made, tensor: torch.Tensor) -> bool:
    """A learned row of vectors copied for every sequence: queries, latents. From here on, data."""
    return (
        made.operation.name in ("expand", "repeat")
        and tensor.dim() >= 3
        and tensor.is_floating_point()
        and tensor.shape[-1] > 1
        and any(not p.is_data and p.op != "constant" for p in made.parents)
    )


@dataclass(frozen=True, slots=True)
class _Result:
    tensor: torch.Tensor
    is_written: bool
    """Written in place, not made."""


@dataclass(frozen=True, slots=True)
class _Made:
    operation: _Operation
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    parents: tuple[Node, ...]
