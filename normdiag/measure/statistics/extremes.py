"""What a number format meets at a residual add: the largest operands, what is lost, overflow."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from normdiag.measure.statistics.peaks import largest
from normdiag.measure.statistics.slab import Slab
from normdiag.structure.residuals import DetectedAdd

_HALF = (torch.float16, torch.bfloat16)


@dataclass(slots=True)
class Extremes:
    """One pass of one add y = x + u. Scalars on the device, over tokens that are not padding."""

    skip: torch.Tensor
    """max |x|."""
    branch: torch.Tensor
    """max |u|."""
    bad_elements: torch.Tensor
    """How many elements of y are not finite, padding included."""
    lost: torch.Tensor | None
    """How many elements have u != 0 and x + u = x, where x, u and y are of half precision."""
    written: torch.Tensor | None
    """How many have u != 0."""


def extremes(
    operands: tuple[torch.Tensor, torch.Tensor, torch.Tensor],
    out_square: torch.Tensor,
    valid: torch.Tensor | None,
    slab: Slab,
) -> Extremes:
    """`operands` are x, u and y, each (tokens, features); `out_square` is ||y||^2 per token, which
    tells where to look for what is not finite."""
    x, u, y = operands
    skip, branch = largest(x, valid, slab), largest(u, valid, slab)
    bad = slab.keep((~y[~out_square.isfinite()].isfinite()).sum())
    if y.dtype not in _HALF or not x.dtype == u.dtype == y.dtype:
        return Extremes(skip, branch, bad, None, None)
    if valid is not None:
        x, u, y = x[valid], u[valid], y[valid]
    written = (u != 0) & x.isfinite()
    lost = slab.keep(((x == y) & written).sum())
    return Extremes(skip, branch, bad, lost, slab.keep(written.sum()))


@dataclass(slots=True)
class AddExtremes:
    """One add over all passes."""

    dtype: str | None = None
    skip_dtype: str | None = None
    branch_dtype: str | None = None
    skip_max: float = 0.0
    branch_max: float = 0.0
    padded_nonfinite: int = 0
    nonfinite_elements: int = 0
    lost: int = 0
    written: int = 0

    def take(
        self, add: DetectedAdd, seen: Extremes, out_square: torch.Tensor, valid: torch.Tensor | None
    ) -> None:
        """One pass more."""
        self.dtype, self.skip_dtype = add.node.dtype, add.skip.dtype
        self.branch_dtype = add.branches[-1].dtype
        self.skip_max = larger(self.skip_max, float(seen.skip))
        self.branch_max = larger(self.branch_max, float(seen.branch))
        if valid is not None:
            bad = ~out_square.isfinite()
            self.padded_nonfinite += int(bad.sum() - bad[valid].sum())
        self.nonfinite_elements += int(seen.bad_elements)
        if seen.lost is not None and seen.written is not None:
            self.lost += int(seen.lost)
            self.written += int(seen.written)


def larger(a: float, b: float) -> float:
    """The larger one; NaN where one is."""
    return b if b != b or b > a else a
