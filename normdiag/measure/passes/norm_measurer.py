"""Inputs and outputs of norms, measured as they run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Any

import torch

from normdiag.graph import Node
from normdiag.measure.passes.jacobian_measurer import JacobianMeasurer
from normdiag.measure.passes.learned_value_store import AFFINE_OPERATIONS
from normdiag.measure.passes.norm_operand import NormOperand
from normdiag.measure.passes.records import NormRecord, SiteRecords
from normdiag.measure.passes.row_context import RowContext
from normdiag.measure.statistics.norm_statistics import compute_norm_statistics
from normdiag.measure.statistics.rows import Tokens, leading_sizes, to_rows
from normdiag.structure.algebraic_forms import DetectedNorm, TanhForm
from normdiag.structure.aten_operations import CASTS


@dataclass(slots=True)
class NormMeasurer:
    """Fills `records.norms`: statistics of x, sampled rows of x and y."""

    records: SiteRecords
    rows: RowContext
    means: Mapping[Node, torch.Tensor]
    """Means per token, by their nodes: x of a norm that centres is x - mean plus mean."""
    has_statistics: bool
    jacobians: JacobianMeasurer | None
    """None where none are asked for."""
    _operand: NormOperand = field(default_factory=NormOperand)
    _scaled_input: torch.Tensor | None = None
    """x of the latest a x with a learned scalar a: a dynamic tanh where a tanh follows."""
    _tanh_input: tuple[TanhForm, NormRecord] | None = None
    """Of the latest tanh(a x): the measured x."""

    def follow_operation(self, node: Node, args: tuple[Any, ...], output: torch.Tensor) -> None:
        """Follow an operation outside norms: its operand may be the input of a norm to come."""
        self._measure_tanh_input(node, args, output)
        if node.op in AFFINE_OPERATIONS:
            self._operand.remember_product(node, args)

    def measure_input(self, norm: DetectedNorm, args: tuple[Any, ...]) -> None:
        """Measure x of `norm`, whose operation runs on `args`."""
        record: NormRecord | None = None
        if norm.kind == "dyt":
            if self._tanh_input is not None and self._tanh_input[0].source is norm.source:
                record = self._tanh_input[1]
        else:
            x = self._operand.find_input(norm, args, self.means)
            if x is not None:
                record = self._measure_rows(norm.node, x, norm.axes, norm)
                if self.jacobians is not None and norm.kind != "batchnorm":
                    self.jacobians.copy_rows(record, to_rows(x, norm.axes, norm.groups))
        if record is not None:
            record.norm = norm
            self.records.norms[norm] = record

    def record_output(self, norm: DetectedNorm, output: torch.Tensor) -> None:
        """Sample y: the value so far, gain and bias may follow."""
        record = self.records.norms.get(norm)
        if record is not None:
            y = to_rows(output, norm.axes, norm.groups)
            record.output_rows = self.rows.slab.store_rows(y, record.rows)

    def _measure_tanh_input(self, node: Node, args: tuple[Any, ...], output: torch.Tensor) -> None:
        """Measure x of tanh(a x) at the tanh: nothing says yet whether it is a norm."""
        if isinstance(node.form, TanhForm):
            if self._scaled_input is not None and self._scaled_input.shape == node.shape:
                self._tanh_input = (node.form, self._measure_rows(node, self._scaled_input, (-1,)))
        elif node.op in CASTS:
            return
        self._scaled_input = None
        if node.op == "mul" and len(node.parents) == 2:
            for x, i in ((args[0], 1), (args[1], 0)):
                if not node.parents[i].is_data and prod(node.parents[i].shape) == 1:
                    is_kept = isinstance(x, torch.Tensor) and x is not output and x.dim() > 1
                    self._scaled_input = x if is_kept else None

    def _measure_rows(
        self, node: Node, x: torch.Tensor, axes: tuple[int, ...], norm: DetectedNorm | None = None
    ) -> NormRecord:
        """Statistics and sampled rows of x. Batch norms have a row per channel, not per token."""
        groups = 1 if norm is None else norm.groups
        rows = to_rows(x, axes, groups)
        if norm is not None and norm.kind == "batchnorm":
            tokens = Tokens(None, 1, rows.shape[0], 1, "batch")
        else:
            tokens = self.rows.site_tokens(node, leading_sizes(x.shape, axes), groups)
        statistics = None
        if self.has_statistics:
            is_centred = norm is not None and norm.is_centred
            statistics = compute_norm_statistics(rows, is_centred, tokens.valid, self.rows.slab)
            if norm is not None and norm.kind in ("batchnorm", "groupnorm"):
                channels = (1 - x.dim(),)
                valid = self.rows.site_tokens(node, leading_sizes(x.shape, channels)).valid
                vectors = to_rows(x, channels)
                statistics.set_channel_statistics(vectors if valid is None else vectors[valid])
        else:
            self.records.record_range(x)
        sampled = self.rows.sampler.sample_rows(rows.shape[0], tokens.valid, rows.device)
        return NormRecord(tokens, statistics, sampled, self.rows.slab.store_rows(rows, sampled))
