"""Residual adds y = x + u, measured as they run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from normdiag.measure.passes.records import AddRecord, SiteRecords
from normdiag.measure.passes.row_context import RowContext
from normdiag.measure.statistics.add_statistics import compute_add_statistics
from normdiag.measure.statistics.rows import leading_sizes, to_rows
from normdiag.structure.feature_axis import stream_axis
from normdiag.structure.residual_adds import DetectedAdd


@dataclass(slots=True)
class AddMeasurer:
    """Fills `records.adds`: statistics per token, sampled rows of x, u and y."""

    records: SiteRecords
    rows: RowContext
    has_statistics: bool
    _latest: tuple[DetectedAdd, torch.Tensor, torch.Tensor] | None = None
    """x and u of the latest add: a second branch of the same stream value may follow."""

    def measure_add(self, add: DetectedAdd, args: tuple[Any, ...], output: torch.Tensor) -> None:
        """Measure `add`, whose operation ran on `args`."""
        operands = self._read_operands(add, args, output)
        if operands is None:
            return
        skip, branch = operands
        self._latest = (add, skip, branch)
        axis = stream_axis(add)
        x, u, y = (to_rows(value, (axis,)) for value in (skip, branch, output))
        tokens = self.rows.site_tokens(add.node, leading_sizes(output.shape, (axis,)))
        slab = self.rows.slab
        statistics = None
        if self.has_statistics:
            statistics = compute_add_statistics(x, u, y, tokens, slab)
        else:
            self.records.record_range(output)
        sampled = self.rows.sampler.sample_add_rows(y.shape[0], tokens, y.device)
        self.records.adds[add] = AddRecord(
            add=add,
            tokens=tokens,
            axis=axis,
            statistics=statistics,
            rows=sampled,
            skip_rows=slab.store_rows(x, sampled),
            branch_rows=slab.store_rows(u, sampled),
            out_rows=slab.store_rows(y, sampled),
        )

    def _read_operands(
        self, add: DetectedAdd, args: tuple[Any, ...], output: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor] | None:
        """x and u of y = x + u; None where an earlier branch of the sum is no longer at hand."""
        skip, branch = args[add.skip_index], args[1 - add.skip_index]
        if add.continued_add is not None:
            if self._latest is None or self._latest[0] is not add.continued_add:
                return None
            _, skip, earlier = self._latest
            branch = earlier + args[add.node.args.index(add.branches[-1])]
        elif add.node.op == "sub":
            skip, branch = (skip, -branch) if add.skip_index == 0 else (-skip, branch)
        elif add.node.op in ("lerp", "addcmul"):
            branch = output - skip
        elif add.node.kwargs.get("alpha", 1) != 1 and add.skip_index == 0:
            branch = branch * add.node.kwargs["alpha"]
        if branch.shape != output.shape:
            branch = branch.expand_as(output)
        return skip, branch
