"""A forward in which LayerNorms compute what RMSNorms would, and RMSNorms what LayerNorms would."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import nn

from normdiag.graph import Node
from normdiag.inputs.batch import Batch
from normdiag.measure.passes.learned_value_store import AFFINE_OPERATIONS
from normdiag.measure.passes.learned_values import LearnedValues
from normdiag.measure.passes.norm_operand import NormOperand
from normdiag.measure.passes.recorded_forward import record_forward
from normdiag.measure.passes.site_observer import overwrites_site_operand
from normdiag.measure.passes.structure_observer import StructureObserver
from normdiag.measure.sites.replay import apply_norm, relative_error
from normdiag.measure.statistics.rows import to_rows
from normdiag.structure.algebraic_forms import DetectedNorm, ScaleShiftTerm

OTHER_KIND = {"layernorm": "rmsnorm", "rmsnorm": "layernorm"}
_EXPLAINED = 0.05
"""Error of replay, relative to the largest output, up to which a norm is known well enough to be
computed otherwise: half precision rounds to 1e-2."""


@dataclass(frozen=True, slots=True)
class SwappedForward:
    """One forward with the swap."""

    output: Any
    """Of the model."""
    hidden: torch.Tensor | None
    """The value that was asked for."""
    swapped: int
    """How many norms computed the other kind."""


def swap_kind(norm: DetectedNorm) -> DetectedNorm:
    """The same norm with centring where it has none, without where it has it."""
    return replace(norm, kind=OTHER_KIND[norm.kind], is_centred=not norm.is_centred)


def run_swapped_forward(model: nn.Module, batch: Batch, hidden_index: int | None) -> SwappedForward:
    """Run `model` once with the swap, and keep the value of the node with number `hidden_index`.

    With the same batch the nodes have the numbers of the main pass. Raises RunError.
    """
    observer = _NormSwapObserver(hidden_index)
    with torch.no_grad():
        output, _ = record_forward(model, batch, observer)
    return SwappedForward(output, observer.hidden, observer.swapped)


@dataclass(slots=True)
class _NormSwapObserver:
    """Overwrites the result of every norm, where it divides, by that of the other kind.

    A gain and a bias that follow are applied by the model. Implements
    `capture.recorder.OperationObserver`.
    """

    hidden_index: int | None
    hidden: torch.Tensor | None = None
    swapped: int = 0
    _structure: StructureObserver = field(default_factory=StructureObserver)
    _operand: NormOperand = field(default_factory=NormOperand)
    _pending: tuple[DetectedNorm, torch.Tensor] | None = None
    """The latest x a of x a + (bias - mean(x) a), and its x: a norm once the rest is added."""

    def needs_operand_copy(self, op: str, args: tuple[Any, ...]) -> bool:
        """True for what may be the input of a norm that is overwritten."""
        return overwrites_site_operand(op, args)

    def observe_operation(self, node: Node, args: tuple[Any, ...], output: torch.Tensor) -> None:
        """Swap the norm that `node` is; keep the value that was asked for."""
        site = self._structure.detect_site(node, args, output)
        if isinstance(site, DetectedNorm):
            if site.kind in OTHER_KIND:
                self._follow_norm(site, node, args, output)
        elif node.op in AFFINE_OPERATIONS:
            self._operand.remember_product(node, args)
        if node.index == self.hidden_index:
            self.hidden = output.detach().clone()

    def _follow_norm(
        self, norm: DetectedNorm, node: Node, args: tuple[Any, ...], output: torch.Tensor
    ) -> None:
        """Swap where the norm divides, or where its two terms are added."""
        if norm.node is node:
            x = self._operand.find_input(norm, args, self._structure.learned.values)
            if x is None:
                return
            if isinstance(node.form, ScaleShiftTerm):
                self._pending = (norm, x)
            else:
                self._swap_output(norm, x, output)
        elif self._pending is not None and self._pending[0] is norm:
            self._swap_output(norm, self._pending[1], output)
            self._pending = None

    def _swap_output(self, norm: DetectedNorm, x: torch.Tensor, output: torch.Tensor) -> None:
        """Overwrite `output`, where replay explains it."""
        if x.shape != output.shape:
            return
        values = LearnedValues(self._structure.learned.values)
        rows = to_rows(x, norm.axes, norm.groups)
        before = apply_norm(norm, rows, values)
        after = apply_norm(swap_kind(norm), rows, values)
        if before is None or after is None:
            return
        computed = to_rows(output, norm.axes, norm.groups)
        if not relative_error(before, computed) <= _EXPLAINED:
            return
        output.copy_(_restore_shape(after, output, norm.axes))
        self.swapped += 1


def _restore_shape(rows: torch.Tensor, like: torch.Tensor, axes: tuple[int, ...]) -> torch.Tensor:
    """The inverse of `to_rows`, for one group."""
    reduced = [axis + like.dim() for axis in axes]
    order = [axis for axis in range(like.dim()) if axis not in reduced] + reduced
    moved = rows.reshape([like.shape[axis] for axis in order])
    return moved.permute([order.index(axis) for axis in range(like.dim())])
