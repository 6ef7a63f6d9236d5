"""Gradient edges of the values of a forward, read as its operations run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from weakref import ref

import torch
from torch.autograd.graph import GradientEdge, get_gradient_edge

from normdiag.graph import Node
from normdiag.measure.passes.structure_observer import StructureObserver
from normdiag.structure.residual_adds import DetectedAdd

AddHook = Callable[[DetectedAdd, torch.Tensor], None]
"""Called with every residual add and its sum, as it runs."""


@dataclass(slots=True)
class GradientEdgeObserver:
    """Reads the gradient edge of every floating value and keeps no tensor.

    An edge is read where the value is used, not where it is computed: below autograd, where a
    recorder stands, a result has no history yet, and what is overwritten still has its old one.
    Implements `capture.recorder.OperationObserver`.
    """

    add_hook: AddHook | None = None
    structure: StructureObserver = field(default_factory=StructureObserver)
    edges: dict[Node, GradientEdge] = field(default_factory=dict)
    _results: dict[Node, ref[torch.Tensor]] = field(default_factory=dict)
    """Of those that no operation reads, the model's output is one."""

    def needs_operand_copy(self, op: str, args: tuple[Any, ...]) -> bool:
        """False: edges do not depend on values."""
        return False

    def observe_operation(self, node: Node, args: tuple[Any, ...], output: torch.Tensor) -> None:
        """Read the edges of the operands; detect the site that `node` is."""
        for operand, value in zip(node.args, args, strict=False):
            self._read_edge(operand, value)
        site = self.structure.detect_site(node, args, output)
        if self.add_hook is not None and isinstance(site, DetectedAdd):
            self.add_hook(site, output)
        if node.is_data and node.is_floating:
            self._results[node] = ref(output)

    def read_unused_results(self) -> None:
        """Read the edges of what was computed and not used; to be called after the forward."""
        for node, result in self._results.items():
            self._read_edge(node, result())

    def _read_edge(self, operand: Any, value: Any) -> None:
        if isinstance(operand, (list, tuple)) and isinstance(value, (list, tuple)):
            for item, item_value in zip(operand, value, strict=False):
                self._read_edge(item, item_value)
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
    """Whether autograd follows: a view taken with autograd off claims so and gets no gradient."""
    return value.requires_grad and not (value.grad_fn is None and value._is_view())
