"""The observer of a measured pass: every norm and residual add is measured as it runs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch

from normdiag.graph import Node
from normdiag.measure.passes.add_measurer import AddMeasurer
from normdiag.measure.passes.jacobian_measurer import JacobianMeasurer
from normdiag.measure.passes.norm_measurer import NormMeasurer
from normdiag.measure.passes.records import SiteRecords
from normdiag.measure.passes.row_context import RowContext
from normdiag.measure.passes.structure_observer import StructureObserver
from normdiag.measure.statistics.peaks import is_peak, largest_magnitude
from normdiag.structure.algebraic_forms import DetectedNorm
from normdiag.structure.aten_operations import ADDITIONS
from normdiag.structure.residual_adds import DetectedAdd

_SCALINGS = frozenset({"mul", "div"})


@dataclass(frozen=True, slots=True)
class MeasuredQuantities:
    """What a pass measures beside the rows that it samples."""

    stream: bool = True
    """Statistics per token of residual adds."""
    norms: bool = True
    """Statistics per row of norm inputs."""
    peaks: bool = True
    """The largest values between the sites: of products, contractions and squares."""
    jacobians: bool = True
    """Extreme singular values of the norms' Jacobians at every token."""
    outputs: bool = False
    """Sums of the model's outputs."""


def overwrites_site_operand(op: str, args: tuple[Any, ...]) -> bool:
    """Whether an operation in place may be an addition to x, or a division of x by a statistic."""
    if len(args) < 2 or not (op in ADDITIONS or op in _SCALINGS):
        return False
    a, b = args[0], args[1]
    if not (isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor)):
        return False
    if a.dim() < 2 or not a.is_floating_point():
        return False
    is_statistic = 1 < b.numel() < a.numel() and b.dim() == a.dim()
    return a.shape == b.shape if op in ADDITIONS else is_statistic


@dataclass(slots=True)
class SiteObserver:
    """Detects sites and measures them. Implements `capture.recorder.OperationObserver`.

    Keeps numbers per token, a few sampled rows and learned vectors, but no activation.
    """

    rows: RowContext
    quantities: MeasuredQuantities
    structure: StructureObserver = field(default_factory=StructureObserver)
    records: SiteRecords = field(default_factory=SiteRecords)
    _norms: NormMeasurer = field(init=False)
    _adds: AddMeasurer = field(init=False)
    _jacobians: JacobianMeasurer = field(init=False)

    def __post_init__(self) -> None:
        means = self.structure.learned.values
        has_norms = self.quantities.norms
        self._jacobians = JacobianMeasurer(means)
        jacobians = self._jacobians if has_norms and self.quantities.jacobians else None
        self._norms = NormMeasurer(self.records, self.rows, means, has_norms, jacobians)
        self._adds = AddMeasurer(self.records, self.rows, self.quantities.stream)

    def needs_operand_copy(self, op: str, args: tuple[Any, ...]) -> bool:
        """True for x of an addition in place and for x of a division by a statistic of it."""
        return overwrites_site_operand(op, args)

    def finish_pass(self) -> None:
        """Measure what waits for the operations that follow a norm."""
        self._jacobians.finish_pass()

    def observe_operation(self, node: Node, args: tuple[Any, ...], output: torch.Tensor) -> None:
        """Measure the site that `node` is, or the largest value that it computes."""
        site = self.structure.detect_site(node, args, output)
        if isinstance(site, DetectedNorm):
            if site.node is node:
                self._norms.measure_input(site, args)
            self._norms.record_output(site, output)
            self.records.keep_output(site.node, output)
            return
        self._norms.follow_operation(node, args, output)
        if isinstance(site, DetectedAdd):
            self._adds.measure_add(site, args, output)
            if site in self.records.adds:
                self.records.keep_output(node, output)
        elif self.quantities.peaks and is_peak(node):
            valid = self.rows.site_tokens(node, node.shape[:-1]).valid
            self.records.peaks[node] = largest_magnitude(output, valid, self.rows.slab)
