"""The small tensors of a forward that are no activations, stored as operations use them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch

from normdiag.graph import Node
from normdiag.structure.algebraic_forms import MeanForm
from normdiag.structure.aten_operations import MATRIX_PRODUCTS

LARGEST_STORED = 1 << 16
"""Elements of a learned value or a mean that is stored. Activations are larger."""
LARGEST_MATRIX = 1 << 12
"""The same of a matrix: weights of several streams, also repeated for every token."""
AFFINE_OPERATIONS = frozenset({"mul", "div", "add", "sub", "rsub", "addcmul", "einsum"})
"""Operations that may apply a gain, a bias or a scale to an activation."""


@dataclass(slots=True)
class LearnedValueStore:
    """Gains, biases, epsilons, scales, and the means per token that norms subtract.

    Tensors on the meta device have no values and are not stored.
    """

    values: dict[Node, torch.Tensor] = field(default_factory=dict)

    def store_operation(self, node: Node, args: tuple[Any, ...], output: torch.Tensor) -> None:
        """Store the mean that `node` is, or the learned operands that it applies."""
        if isinstance(node.form, MeanForm) and output.numel() <= LARGEST_STORED:
            if not output.is_meta:
                self.values[node] = output
        elif node.op in AFFINE_OPERATIONS:
            self.store_operands(node, args)
        elif node.op in MATRIX_PRODUCTS:
            self.store_operands(node, args, LARGEST_MATRIX)

    def store_operands(
        self, node: Node, args: tuple[Any, ...], largest: int = LARGEST_STORED
    ) -> None:
        """Store the operands of `node` that derive from no input of the model."""
        for operand, value in zip(node.args, args, strict=False):
            if (
                isinstance(operand, Node)
                and not operand.is_data
                and isinstance(value, torch.Tensor)
                and value.numel() <= largest
                and value.is_floating_point()
                and not value.is_meta
            ):
                self.values.setdefault(operand, value)
