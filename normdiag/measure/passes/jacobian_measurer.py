"""Extreme singular values of every norm's Jacobian over all tokens, while the rows are at hand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch

from normdiag.graph import Node
from normdiag.measure.passes.learned_values import LearnedValues
from normdiag.measure.passes.records import NormRecord
from normdiag.measure.passes.token_jacobians import compute_token_jacobians
from normdiag.measure.statistics.jacobian_extremes import JacobianExtremes
from normdiag.structure.algebraic_forms import DetectedNorm

_Affine = tuple[tuple[Node | float, ...], float, str]


@dataclass(slots=True)
class JacobianMeasurer:
    """Fills `NormRecord.extremes`.

    The gain is known after the norm: the input is copied and solved when the next norm runs, so
    that memory holds one input at a time.
    """

    values: Mapping[Node, torch.Tensor]
    """Learned values, by their nodes."""
    _pending: tuple[NormRecord, torch.Tensor, torch.Tensor] | None = None
    """The latest norm, its rows without padding and their numbers."""
    _solved: list[tuple[NormRecord, _Affine]] = field(default_factory=list)

    def copy_rows(self, record: NormRecord, rows: torch.Tensor) -> None:
        """Solve the norm before; keep all rows of this one."""
        self._solve_pending()
        valid = record.tokens.valid
        which = torch.arange(len(rows)) if valid is None else valid
        self._pending = (record, rows.clone() if valid is None else rows[valid], which)

    def finish_pass(self) -> None:
        """Solve the last norm, and drop what was solved before an operation that joined its norm.

        A later operation may turn out to be a gain too.
        """
        self._solve_pending()
        for record, affine in self._solved:
            if _affine_part(record.norm) != affine:
                record.extremes = None
        self._solved.clear()

    def _solve_pending(self) -> None:
        if self._pending is None:
            return
        record, rows, which = self._pending
        self._pending = None
        tokens = compute_token_jacobians(record.norm, rows, which, LearnedValues(self.values))
        if tokens is not None:
            record.extremes = JacobianExtremes()
            record.extremes.update(tokens)
            self._solved.append((record, _affine_part(record.norm)))


def _affine_part(norm: DetectedNorm) -> _Affine:
    return tuple(norm.gains), norm.factor, norm.kind
