"""Largest operands, absorbed updates and overflow at one residual add in one pass."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from normdiag.measure.statistics.peaks import largest_magnitude
from normdiag.measure.statistics.slab import Slab

_HALF = (torch.float16, torch.bfloat16)


@dataclass(slots=True)
class OperandExtremes:
    """One pass of one add y = x + u. Scalars on the device, over tokens that are not padding."""

    skip: torch.Tensor
    """max |x|."""
    branch: torch.Tensor
    """max |u|."""
    nonfinite_elements: torch.Tensor
    """How many elements of y are not finite, padding included."""
    absorbed_elements: torch.Tensor | None
    """How many elements have u != 0 and x + u = x, where x, u and y are of half precision."""
    written_elements: torch.Tensor | None
    """How many have u != 0."""


def measure_extremes(
    operands: tuple[torch.Tensor, torch.Tensor, torch.Tensor],
    out_square: torch.Tensor,
    valid: torch.Tensor | None,
    slab: Slab,
) -> OperandExtremes:
    """Measure x, u and y (`operands`), each (tokens, features).

    `out_square` is ||y||^2 per token: only where it is not finite an element of y can be so.
    """
    x, u, y = operands
    skip, branch = largest_magnitude(x, valid, slab), largest_magnitude(u, valid, slab)
    bad = slab.store_copy((~y[~out_square.isfinite()].isfinite()).sum())
    if y.dtype not in _HALF or not x.dtype == u.dtype == y.dtype:
        return OperandExtremes(skip, branch, bad, None, None)
    if valid is not None:
        x, u, y = x[valid], u[valid], y[valid]
    written = (u != 0) & x.isfinite()
    lost = slab.store_copy(((x == y) & written).sum())
    return OperandExtremes(skip, branch, bad, lost, slab.store_copy(written.sum()))


def larger_value(a: float, b: float) -> float:
    """The larger one; NaN where one is."""
    return b if b != b or b > a else a
