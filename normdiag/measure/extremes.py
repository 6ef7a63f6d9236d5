"""What a number format meets at one residual add: its largest operands, what it lost, overflow."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from normdiag.measure.peaks import largest
from normdiag.measure.slab import Slab

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
