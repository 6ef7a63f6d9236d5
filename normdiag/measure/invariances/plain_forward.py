"""What a model computes as it is, to be compared with a forward whose norms are swapped.

A forward of the same inputs that is run for something else can be read beside it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from normdiag.graph import Node
from normdiag.inputs.batch import Batch
from normdiag.measure.gradients.objectives import Objective
from normdiag.measure.passes.recorded_forward import record_forward


@dataclass(slots=True)
class PlainForward:
    """The last hidden value and the loss. Implements `capture.recorder.OperationObserver`."""

    batch: Batch
    """What is run."""
    hidden_index: int | None
    """Number of the node of the hidden value, as in the main pass."""
    objective: Objective | None
    hidden: torch.Tensor | None = None
    loss: tuple[float, int] | None = None
    """And the target tokens."""
    is_read: bool = False

    def needs_operand_copy(self, op: str, args: tuple[Any, ...]) -> bool:
        """False: operands are not read."""
        return False

    def observe_operation(self, node: Node, args: tuple[Any, ...], output: torch.Tensor) -> None:
        """Keep the hidden value."""
        if node.index == self.hidden_index:
            self.hidden = output.detach().clone()

    def read_output(self, output: Any) -> None:
        """Take the loss of what the forward gave back."""
        self.loss = compute_finite_loss(self.objective, output)
        self.is_read = True

    def run_alone(self, model: nn.Module) -> None:
        """Run the forward for this alone. Raises RunError."""
        with torch.no_grad():
            output, _ = record_forward(model, self.batch, self)
        self.read_output(output)


def compute_finite_loss(objective: Objective | None, output: Any) -> tuple[float, int] | None:
    """The loss and its target tokens; None where there is none or it is not finite."""
    if objective is None:
        return None
    loss, tokens = objective.compute_loss(output)
    value = float(loss)
    return (value, tokens) if math.isfinite(value) else None
