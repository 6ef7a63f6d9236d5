"""A function of tensors run under the recorder, as a module, with nothing measured."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from normdiag.capture.recorder import Recorder
from normdiag.capture.scopes import Scopes
from normdiag.graph import Graph, Node


@dataclass
class RecordingObserver:
    """An observer that keeps the nodes and no tensor."""

    overwritten: tuple[str, ...] = ()
    """Operations of which it wants the operand as it was before they write over it."""
    nodes: list[Node] = field(default_factory=list)
    operands: list[tuple[Any, ...]] = field(default_factory=list)
    keeps: bool = False

    def needs_operand_copy(self, op: str, args: tuple[Any, ...]) -> bool:
        return op in self.overwritten

    def observe_operation(self, node: Node, args: tuple[Any, ...], output: torch.Tensor) -> None:
        self.nodes.append(node)
        if self.keeps:
            self.operands.append(tuple(a.clone() for a in args if isinstance(a, torch.Tensor)))


class Function(nn.Module):
    """A forward without parameters."""

    def __init__(self, forward: Callable[..., Any]) -> None:
        super().__init__()
        self.forward = forward


def record_graph(
    model: nn.Module | Callable[..., Any],
    *inputs: torch.Tensor,
    observer: RecordingObserver | None = None,
    mode: Callable[[], AbstractContextManager[Any]] = torch.no_grad,
) -> Graph:
    """The graph of one forward; inputs are named x0, x1, .."""
    module = model if isinstance(model, nn.Module) else Function(model)
    with mode(), Scopes(module) as scopes:
        recorder = Recorder(module, scopes, observer or RecordingObserver())
        recorder.bind_inputs((f"x{i}", x) for i, x in enumerate(inputs))
        with recorder:
            module(*inputs)
    recorder.graph.calls = scopes.calls
    return recorder.graph


def find_nodes(graph: Graph, op: str) -> list[Node]:
    """The nodes that `op` computed, in order."""
    return [node for node in graph if node.op == op]


def find_only_node(graph: Graph, op: str) -> Node:
    """The one node that `op` computed."""
    (node,) = find_nodes(graph, op)
    return node


def find_ancestors(node: Node) -> set[Node]:
    """Everything that `node` was computed from."""
    nodes: set[Node] = set()
    stack = [node]
    while stack:
        for parent in stack.pop().parents:
            if parent not in nodes:
                nodes.add(parent)
                stack.append(parent)
    return nodes
