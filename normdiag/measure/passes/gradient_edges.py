"""A forward that can be differentiated, with a gradient edge at every stream value and norm.

Between two edges the derivative of any span of the model is a call of `torch.autograd.grad`: block
Jacobians and the gradient flow start here.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn
from torch.autograd.graph import GradientEdge
from torch.nn.attention import SDPBackend, sdpa_kernel

from normdiag.graph import Node
from normdiag.inputs.batch import Batch
from normdiag.inputs.tensors import map_input_tensors
from normdiag.measure.passes.differentiable_forms import (
    SplitFusedAdds,
    keep_checkpointed_values,
)
from normdiag.measure.passes.forward_structure import ForwardStructure
from normdiag.measure.passes.gradient_edge_observer import AddHook, GradientEdgeObserver
from normdiag.measure.passes.learned_values import LearnedValues
from normdiag.measure.passes.model_call import quiet_model
from normdiag.measure.passes.overwritten_values import keep_overwritten_values
from normdiag.measure.passes.recorded_forward import record_forward
from normdiag.measure.statistics.rows import Tokens, leading_sizes
from normdiag.measure.statistics.token_layouts import TokenLayouts
from normdiag.structure.algebraic_forms import DetectedNorm
from normdiag.structure.aten_operations import RESHAPES, VIEWS
from normdiag.structure.dataflow import step_back
from normdiag.structure.feature_axis import stream_axis
from normdiag.structure.residual_adds import DetectedAdd, step_past_bias


@dataclass(frozen=True, slots=True)
class AddEdges:
    """One residual add y = x + u_1 + ..; an edge is None where autograd did not follow."""

    add: DetectedAdd
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
class NormEdges:
    """One norm; an edge is None where autograd did not follow."""

    norm: DetectedNorm
    input: GradientEdge | None
    output: GradientEdge | None
    """After the gain and the bias."""


@dataclass(slots=True, kw_only=True)
class GradientEdges(ForwardStructure):
    """Output and gradient edges of one forward with autograd on.

    The autograd graph lives as long as this does.
    """

    output: Any
    layouts: TokenLayouts
    by_node: dict[Node, GradientEdge]
    adds: dict[str, AddEdges] = field(default_factory=dict)
    """By id, in the order of the forward."""
    norms: dict[str, NormEdges] = field(default_factory=dict)

    def find_edge(self, node: Node) -> GradientEdge | None:
        """Where the gradient with respect to the value of `node` arrives."""
        return self.by_node.get(node)

    def stream_node(self, add: DetectedAdd) -> Node:
        """The value that the skip operand is a copy of, where the branches leave the stream."""
        regions = (stack.regions[add] for stack in self.stacks if add in stack.regions)
        branch = next(regions, set[Node]())
        node = add.skip
        while node is not add.root and node not in branch:
            step = step_back(node)
            before = step_past_bias(node) if step is None else step[0]
            if before is None:
                break
            node = before
        # A view that changes nothing, or was taken twice, is the same memory: what reads the one is
        # taken to read the other, but autograd tells them apart, and only behind the view do both
        # come together.
        while _changes_nothing(node) or self._has_twin_view(node):
            node = node.parents[0]
        return node

    def _has_twin_view(self, node: Node) -> bool:
        if node.op not in VIEWS or not node.parents:
            return False
        taken = (node.op, node.output, node.parents, node.args, node.kwargs)
        later = self.graph.nodes[node.parents[0].index + 1 :]
        return any(
            (n.op, n.output, n.parents, n.args, n.kwargs) == taken for n in later if n is not node
        )


def _changes_nothing(node: Node) -> bool:
    if not node.parents or node.parents[0].shape != node.shape:
        return False
    if node.op == "permute":
        rank = len(node.shape)
        return [axis % rank for axis in node.args[1]] == list(range(rank))
    return node.op in RESHAPES or node.op in ("slice", "alias")


@contextmanager
def record_gradient_edges(
    model: nn.Module, batch: Batch, add_hook: AddHook | None = None
) -> Iterator[GradientEdges]:
    """Run `model` once with autograd on; derivatives are to be taken inside the context.

    Meanwhile every floating parameter and input requires gradients, attention runs as plain
    operations (they can be differentiated twice), and values overwritten in place are kept for
    the backward. Nothing is accumulated into `.grad`. At the end the model is as it was.

    Raises:
        RunError: forward raised.
    """
    with (
        quiet_model(model),
        torch.inference_mode(False),
        torch.enable_grad(),
        _require_gradients(model),
        keep_overwritten_values(),
    ):
        yield record_next_gradient_edges(model, batch, add_hook)


def record_next_gradient_edges(
    model: nn.Module, batch: Batch, add_hook: AddHook | None
) -> GradientEdges:
    """Run `model` once more inside `record_gradient_edges`, on other inputs."""
    batch = map_input_tensors(batch, _copy_input)
    observer = GradientEdgeObserver(add_hook)
    with SplitFusedAdds(), keep_checkpointed_values():
        output, graph = record_forward(model, batch, observer, sdpa_kernel(SDPBackend.MATH))
    observer.read_unused_results()
    edges = GradientEdges(
        graph=graph,
        reader=observer.structure.reader,
        learned=LearnedValues(observer.structure.learned.values),
        output=output,
        layouts=TokenLayouts(batch),
        by_node=observer.edges,
    )
    for add, name in edges.sites.adds.items():
        edges.adds[name] = _collect_add_edges(add, edges)
    for norm, name in edges.sites.norms.items():
        output_node = norm.output or norm.node
        edges.norms[name] = NormEdges(
            norm, edges.find_edge(norm.source), edges.find_edge(output_node)
        )
    return edges


def _collect_add_edges(add: DetectedAdd, edges: GradientEdges) -> AddEdges:
    shape, axis = add.node.shape, stream_axis(add)
    stream = edges.stream_node(add)
    return AddEdges(
        add=add,
        skip=edges.find_edge(stream),
        skip_shape=stream.shape,
        branches=tuple(edges.find_edge(branch) for branch in add.branches),
        out=edges.find_edge(add.node),
        tokens=edges.layouts.layout_of(add.node).site_tokens(leading_sizes(shape, (axis,))),
        axis=axis,
        shape=shape,
    )


@contextmanager
def _require_gradients(model: nn.Module) -> Iterator[None]:
    """Meanwhile floating parameters require gradients, and hooks on backward passes do not run."""
    frozen = [
        parameter
        for parameter in model.parameters()
        if parameter.is_floating_point()
        and not parameter.requires_grad
        and not parameter.is_inference()
    ]
    hooked = [(m, m._backward_hooks, m._backward_pre_hooks) for m in model.modules()]
    try:
        for parameter in frozen:
            parameter.requires_grad_(True)
        for module, hooks, pre_hooks in hooked:
            module._backward_hooks, module._backward_pre_hooks = type(hooks)(), type(pre_hooks)()
        yield
    finally:
        for module, hooks, pre_hooks in hooked:
            module._backward_hooks, module._backward_pre_hooks = hooks, pre_hooks
        for parameter in frozen:
            parameter.requires_grad_(False)


def _copy_input(tensor: torch.Tensor) -> torch.Tensor:
    """A copy that requires gradients where it is floating."""
    copied = tensor.detach().clone()
    if not copied.is_floating_point():
        return copied
    return copied.requires_grad_(True).clone()  # no leaf: forward may write in place
