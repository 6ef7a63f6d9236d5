"""A forward that can be differentiated, with a gradient edge at every stream value and norm.

Between two edges the derivative of any span of the model is a call of `torch.autograd.grad`: the
blocks, the gradient flow and the sensitivities all start here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from weakref import ref

import torch
from torch import nn
from torch.autograd.graph import (
    GradientEdge,
    allow_mutation_on_saved_tensors,
    get_gradient_edge,
)
from torch.nn.attention import SDPBackend, sdpa_kernel

from normdiag.capture.recorder import Recorder
from normdiag.capture.scopes import Scopes
from normdiag.graph import Graph, Node
from normdiag.inputs.batch import Batch
from normdiag.measure.passes.forward import bind, call, quiet_model
from normdiag.measure.passes.learned_values import LearnedValues
from normdiag.measure.passes.observer import SiteObserver, Wanted
from normdiag.measure.statistics.token_layouts import Layouts
from normdiag.measure.statistics.rows import Sampler, Tokens
from normdiag.structure.attachments import StackStructure
from normdiag.structure.describe import SiteMap, build_architecture
from normdiag.structure.features import feature_axis
from normdiag.structure.flow import step_back
from normdiag.structure.forms import DetectedNorm
from normdiag.structure.operations import RESHAPES
from normdiag.structure.reading import StructureReader
from normdiag.structure.residuals import DetectedAdd


@dataclass(frozen=True, slots=True)
class AddTap:
    """One residual add y = x + u_1 + ..; an edge is None where autograd did not follow."""

    found: DetectedAdd
    skip: GradientEdge | None
    """Of the stream value that x is a copy of (before casts, views and a skip scale), which the
    branches read too."""
    skip_shape: tuple[int, ...]
    """Of that stream value."""
    branches: tuple[GradientEdge | None, ...]
    """Of every u, as added."""
    out: GradientEdge | None
    """Of y."""
    tokens: Tokens
    """Of the rows of y."""
    axis: int
    """The feature axis of y, counted from the end."""
    shape: tuple[int, ...]
    """Of y."""


@dataclass(frozen=True, slots=True)
class NormTap:
    """One norm; an edge is None where autograd did not follow."""

    found: DetectedNorm
    input: GradientEdge | None
    output: GradientEdge | None
    """After the gain and the bias."""


@dataclass(slots=True)
class Taps:
    """What one forward with autograd on gave. Its graph lives as long as this does."""

    output: Any
    graph: Graph
    sites: SiteMap
    stacks: list[StackStructure]
    learned: LearnedValues
    adds: dict[str, AddTap]
    """By id, in the order of the forward."""
    norms: dict[str, NormTap]
    layouts: Layouts
    edges: dict[Node, GradientEdge]

    def edge(self, node: Node) -> GradientEdge | None:
        """Where the gradient with respect to the value of `node` arrives."""
        return self.edges.get(node)

    def stream(self, add: DetectedAdd) -> Node:
        """The value that the skip operand is a copy of, where the branches leave the stream."""
        regions = (stack.regions[add] for stack in self.stacks if add in stack.regions)
        branch = next(regions, set[Node]())
        node = add.skip
        while node is not add.root and node not in branch:
            step = step_back(node)
            if step is None:
                break
            node = step[0]
        # A view that changes nothing is the same memory: what reads the one is taken to read the
        # other, but autograd tells them apart, and only behind the view do both come together.
        while _changes_nothing(node):
            node = node.parents[0]
        return node


def _changes_nothing(node: Node) -> bool:
    if not node.parents or node.parents[0].shape != node.shape:
        return False
    if node.op == "permute":
        rank = len(node.shape)
        return [axis % rank for axis in node.args[1]] == list(range(rank))
    return node.op in RESHAPES or node.op == "slice"


OnAdd = Callable[[DetectedAdd, torch.Tensor], None]
"""Is told of every residual add as it runs, with its sum."""


@contextmanager
def tapped(model: nn.Module, batch: Batch, on_add: OnAdd | None = None) -> Iterator[Taps]:
    """Run `model` once with autograd on; derivatives are to be taken inside the context.

    Meanwhile every floating parameter and input asks for gradients, attention runs as plain
    operations (they can be differentiated twice), and values overwritten in place are kept for
    the backward. Nothing is accumulated into `.grad`. Afterwards all is as it was.

    Raises:
        RunError: where forward cannot run like this.
    """
    with (
        quiet_model(model),
        torch.inference_mode(False),
        torch.enable_grad(),
        _asking(model),
        allow_mutation_on_saved_tensors(),
    ):
        yield tapped_again(model, batch, on_add)


def tapped_again(model: nn.Module, batch: Batch, on_add: OnAdd | None) -> Taps:
    """One more forward inside `tapped`, on other inputs."""
    batch = _leaves(batch)
    observer = _Edges(StructureReader(), on_add)
    with Scopes(model) as scopes, sdpa_kernel(SDPBackend.MATH):
        recorder = Recorder(model, scopes, observer)
        bind(recorder, batch)
        with recorder:
            output = call(model, batch)
        graph = recorder.graph
        graph.calls = scopes.calls
    observer.finish()
    stacks = observer.reading.build_stacks(graph)
    learned = LearnedValues(observer.sites.values)
    sites = build_architecture(graph, observer.reading.norms, stacks, learned)
    layouts, edges = Layouts(batch.inputs, graph), observer.edges
    taps = Taps(output, graph, sites, stacks, learned, {}, {}, layouts, edges)
    taps.adds |= {name: _add_tap(add, taps) for add, name in sites.adds.items()}
    taps.norms |= {
        name: NormTap(norm, edges.get(norm.source), edges.get(norm.output or norm.node))
        for norm, name in sites.norms.items()
    }
    return taps


def _add_tap(add: DetectedAdd, taps: Taps) -> AddTap:
    shape, axis = add.node.shape, feature_axis(add.branches[-1])
    lead = tuple(size for i, size in enumerate(shape) if i != axis + len(shape))
    stream = taps.stream(add)
    return AddTap(
        found=add,
        skip=taps.edge(stream),
        skip_shape=stream.shape,
        branches=tuple(taps.edge(branch) for branch in add.branches),
        out=taps.edge(add.node),
        tokens=taps.layouts.of(add.node).tokens(lead),
        axis=axis,
        shape=shape,
    )


@dataclass(slots=True)
class _Edges:
    """The recorder's observer: no tensor is kept, of every floating value its gradient edge.

    An edge is read where the value is used, not where it is made: below autograd, where a
    recorder stands, a result has no history yet, and what is overwritten still has its old one.
    """

    reading: StructureReader
    on_add: OnAdd | None = None
    sites: SiteObserver = field(init=False)
    edges: dict[Node, GradientEdge] = field(default_factory=dict)
    _made: dict[Node, ref[torch.Tensor]] = field(default_factory=dict)
    """Adds and norms: of those that nothing reads, the model's output is one."""

    def __post_init__(self) -> None:
        nothing = Wanted(stream=False, norms=False, values=False)  # but learned values
        self.sites = SiteObserver(self.reading, _no_layout, Sampler(0, 0), nothing)

    def wants_operand(self, op: str, args: tuple[Any, ...]) -> bool:
        return False

    def seen(self, node: Node, args: tuple[Any, ...], output: torch.Tensor) -> None:
        for operand, value in zip(node.args, args, strict=False):
            self._keep(operand, value)
        known = len(self.reading.adds)
        self.sites.seen(node, args, output)
        if self.on_add is not None and len(self.reading.adds) > known:
            self.on_add(self.reading.adds[-1], output)
        if node.is_data and node.is_floating:
            self._made[node] = ref(output)

    def finish(self) -> None:
        """Read the edges of what was made and not used."""
        for node, made in self._made.items():
            self._keep(node, made())

    def _keep(self, operand: Any, value: Any) -> None:
        if isinstance(operand, (list, tuple)) and isinstance(value, (list, tuple)):
            for one, its in zip(operand, value, strict=False):
                self._keep(one, its)
        elif (
            isinstance(operand, Node)
            and operand.is_data
            and operand not in self.edges
            and isinstance(value, torch.Tensor)
            and _is_followed(value)
        ):
            with torch.enable_grad():  # a leaf's edge needs it, and the model may have it off
                self.edges[operand] = get_gradient_edge(value)


def _is_followed(value: torch.Tensor) -> bool:
    """A view that is taken with autograd off says that it asks for gradients, and gets none."""
    return value.requires_grad and not (value.grad_fn is None and value._is_view())


def _no_layout(node: Node) -> Any:
    raise NotImplementedError(f"nothing of {node.op} is measured")


@contextmanager
def _asking(model: nn.Module) -> Iterator[None]:
    """Every floating parameter asks for gradients, and hooks on backward passes do not run."""
    silent = [
        parameter
        for parameter in model.parameters()
        if parameter.is_floating_point()
        and not parameter.requires_grad
        and not parameter.is_inference()
    ]
    hooked = [(m, m._backward_hooks, m._backward_pre_hooks) for m in model.modules()]
    try:
        for parameter in silent:
            parameter.requires_grad_(True)
        for module, hooks, before in hooked:
            module._backward_hooks, module._backward_pre_hooks = type(hooks)(), type(before)()
        yield
    finally:
        for module, hooks, before in hooked:
            module._backward_hooks, module._backward_pre_hooks = hooks, before
        for parameter in silent:
            parameter.requires_grad_(False)


def _leaves(batch: Batch) -> Batch:
    """The batch on copies of its tensors; the floating ones ask for gradients."""
    return Batch(
        inputs={name: _leaf(value) for name, value in batch.inputs.items()},
        args=tuple(_leaf(value) for value in batch.args),
    )


def _leaf(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        copied = value.detach().clone()
        if not copied.is_floating_point():
            return copied
        return copied.requires_grad_(True).clone()  # no leaf: forward may write in place
    if isinstance(value, dict):
        return {key: _leaf(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)) and type(value) in (list, tuple):
        return type(value)(_leaf(item) for item in value)
    return value
